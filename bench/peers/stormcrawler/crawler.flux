# The topology of StormCrawler's archetype. Comments explain what was changed.
# stormcrawler_topology.py provides the values in braces.
name: crawler

includes:
  - {resource: true, file: /crawler-default.yaml, override: false}

config:
  topology.workers: 1
  topology.message.timeout.secs: 300
  topology.max.spout.pending: 100
  topology.kryo.register:
    - com.digitalpebble.stormcrawler.Metadata
    - com.digitalpebble.stormcrawler.persistence.Status
  topology.metrics.consumer.register:
    - {class: org.apache.storm.metric.LoggingMetricsConsumer, parallelism.hint: 1}

  http.protocol.implementation: com.digitalpebble.stormcrawler.protocol.okhttp.HttpProtocol
  https.protocol.implementation: com.digitalpebble.stormcrawler.protocol.okhttp.HttpProtocol
  parsefilters.config.file: parsefilters.json
  urlfilters.config.file: urlfilters.json
  jsoup.filters.config.file: jsoupfilters.json
  textextractor.include.pattern:
    - DIV[id="maincontent"]
    - DIV[itemprop="articleBody"]
    - ARTICLE
  textextractor.exclude.tags: [STYLE, SCRIPT]
  indexer.md.mapping:
    - parse.title=title
    - parse.keywords=keywords
    - parse.description=description
    - domain
    - format

  # changed: the connections of all programs, and no politeness pause
  fetcher.threads.number: ${threads}
  fetcher.threads.per.queue: ${threads_per_host}
  fetcher.server.delay: 0
  # changed: the limit of 65536 would truncate pages
  http.content.limit: 10000000
  # changed: 10 would delay the end of the crawl
  fetcher.metrics.time.bucket.secs: 1
  # added: required by the WARC module
  http.store.headers: true
  http.protocol.versions: [http/1.1]
  warc: {fs.file.impl: org.apache.hadoop.fs.RawLocalFileSystem}

components:
  - id: file
    className: com.digitalpebble.stormcrawler.warc.WARCFileNameFormat
    configMethods:  # in a line with more braces, Flux would not replace the value
      - name: withPath
        args: ["${warc}"]
  # the default of 10 would lose records, because Storm is terminated
  - id: sync
    className: org.apache.storm.hdfs.bolt.sync.CountSyncPolicy
    constructorArgs: [1]

spouts:
  - id: spout
    className: com.digitalpebble.stormcrawler.spout.MemorySpout
    parallelism: 1
    constructorArgs: [${seeds}]

# absent: the bolts of Tika, which parse other types than HTML; their module is not in the registry
bolts:
  - id: partitioner
    className: com.digitalpebble.stormcrawler.bolt.URLPartitionerBolt
    parallelism: 1
  - id: fetcher
    className: com.digitalpebble.stormcrawler.bolt.FetcherBolt
    parallelism: 1
  - id: warc  # added
    className: com.digitalpebble.stormcrawler.warc.WARCHdfsBolt
    parallelism: 1
    configMethods:
      - {name: withConfigKey, args: [warc]}
      - {name: withFileNameFormat, args: [{ref: file}]}
      - {name: withRequestRecords}
      - {name: withSyncPolicy, args: [{ref: sync}]}
  - id: sitemap
    className: com.digitalpebble.stormcrawler.bolt.SiteMapParserBolt
    parallelism: 1
  - id: feed
    className: com.digitalpebble.stormcrawler.bolt.FeedParserBolt
    parallelism: 1
  - id: parse
    className: com.digitalpebble.stormcrawler.bolt.JSoupParserBolt
    parallelism: 1
  - id: index
    className: com.digitalpebble.stormcrawler.indexing.StdOutIndexer
    parallelism: 1
  - id: status  # changed: StdOutStatusUpdater prints links instead of following them
    className: com.digitalpebble.stormcrawler.persistence.MemoryStatusUpdater
    parallelism: 1

streams:
  - {from: spout, to: partitioner, grouping: {type: SHUFFLE}}
  - {from: partitioner, to: fetcher, grouping: {type: FIELDS, args: [key]}}
  - {from: fetcher, to: warc, grouping: {type: LOCAL_OR_SHUFFLE}}
  - {from: fetcher, to: sitemap, grouping: {type: LOCAL_OR_SHUFFLE}}
  - {from: sitemap, to: feed, grouping: {type: LOCAL_OR_SHUFFLE}}
  - {from: feed, to: parse, grouping: {type: LOCAL_OR_SHUFFLE}}
  - {from: parse, to: index, grouping: {type: LOCAL_OR_SHUFFLE}}
  - {from: fetcher, to: status, grouping: {type: FIELDS, args: [url], streamId: status}}
  - {from: sitemap, to: status, grouping: {type: FIELDS, args: [url], streamId: status}}
  - {from: feed, to: status, grouping: {type: FIELDS, args: [url], streamId: status}}
  - {from: parse, to: status, grouping: {type: FIELDS, args: [url], streamId: status}}
  - {from: index, to: status, grouping: {type: FIELDS, args: [url], streamId: status}}
