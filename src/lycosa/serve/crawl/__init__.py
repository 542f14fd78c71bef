"""The crawl: activity, collections, hosts, state of a URL, changes, proposed sites."""
