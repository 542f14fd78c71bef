// Colly fetching and following links, and nothing else: colly CONCURRENCY SEED...
//
// Every `a` and `area` of a page is taken; an href is looked at once a page and its fragment cut off, else colly would
// fetch a page once for each fragment. Robots, cookies, delays and logging are off; connections are kept open, of which Go by
// itself keeps two a host.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/gocolly/colly/v2"
)

func main() {
	concurrency, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	seeds := os.Args[2:]
	origins := map[string]bool{}
	for _, seed := range seeds {
		parsed, err := url.Parse(seed)
		if err != nil {
			panic(err)
		}
		origins[parsed.Scheme+"://"+parsed.Host+"/"] = true
	}

	collector := colly.NewCollector(colly.Async(true), colly.IgnoreRobotsTxt(), colly.MaxBodySize(0))
	collector.DisableCookies()
	collector.SetRequestTimeout(60 * time.Second)
	collector.WithTransport(&http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:        4 * concurrency,
		MaxIdleConnsPerHost: concurrency,
		DisableCompression:  true, // nginx sends these sites uncompressed
		ForceAttemptHTTP2:   true,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // the benchmark's certificate is made for the run
	})
	if err := collector.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: concurrency}); err != nil {
		panic(err)
	}

	var seen sync.Map
	collector.OnHTML("html", func(page *colly.HTMLElement) {
		hrefs := map[string]bool{}
		page.DOM.Find("a[href], area[href]").Each(func(_ int, link *goquery.Selection) {
			href, _ := link.Attr("href")
			href, _, _ = strings.Cut(href, "#")
			if href == "" || hrefs[href] {
				return
			}
			hrefs[href] = true
			target := page.Request.AbsoluteURL(href)
			if _, known := seen.LoadOrStore(target, true); !known && within(origins, target) {
				_ = collector.Visit(target) // an error here is a URL that colly has seen under another name
			}
		})
	})
	for _, seed := range seeds {
		seen.Store(seed, true)
		if err := collector.Visit(seed); err != nil {
			fmt.Fprintln(os.Stderr, seed, err)
		}
	}
	collector.Wait()
}

func within(origins map[string]bool, target string) bool {
	scheme := strings.Index(target, "://")
	if scheme < 0 {
		return false
	}
	path := strings.IndexByte(target[scheme+3:], '/')
	return path >= 0 && origins[target[:scheme+3+path+1]]
}
