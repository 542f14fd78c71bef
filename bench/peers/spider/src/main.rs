//! Spider fetching and following links, and nothing else: `spider CONCURRENCY SEED…`.
//!
//! One `Website` an origin, all at once; they share out the concurrency, for a crawl that finds no place in a limit shared with others
//! takes itself for done. An origin's further seeds are a second pass that keeps what the first one visited. Robots, delays, sitemaps
//! and logging are off; of spider's features those that slow a crawl down (the balance by load, the throttle, the disk) are left out,
//! and the allocator is the one that its README recommends.

use std::collections::BTreeMap;
use std::time::Duration;

use spider::hashbrown::HashSet;
use spider::website::Website;
use spider::CaseInsensitiveString;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn origin(seed: &str) -> String {
    let after = seed.find("://").expect("an absolute URL") + 3;
    let path = seed[after..].find('/').map_or(seed.len(), |place| after + place);
    format!("{}/", &seed[..path])
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let concurrency: usize = arguments.next().expect("CONCURRENCY").parse().expect("a number");
    let mut origins: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for seed in arguments {
        origins.entry(origin(&seed)).or_default().push(seed);
    }
    let share = (concurrency / origins.len()).max(1);
    let mut crawls = Vec::new();
    for (origin, seeds) in origins {
        crawls.push(tokio::spawn(async move {
            let mut website = Website::new(&origin);
            website
                .with_respect_robots_txt(false)
                .with_ignore_sitemap(true)
                .with_subdomains(false)
                .with_tld(false)
                .with_delay(0)
                .with_retry(0)
                .with_depth(0)
                .with_block_assets(false)
                .with_danger_accept_invalid_certs(true) // the benchmark's certificate is made for the run
                .with_no_control_thread(true)
                .with_request_timeout(Some(Duration::from_secs(60)))
                .with_user_agent(Some("lycosa-bench-spider"))
                .with_concurrency_limit(Some(share));
            website.crawl_raw().await;
            if seeds.len() > 1 {
                let links: HashSet<CaseInsensitiveString> = seeds.iter().map(|seed| CaseInsensitiveString::new(seed)).collect();
                website.persist_links();
                website.set_extra_links(links);
                website.crawl_raw().await;
            }
        }));
    }
    for crawl in crawls {
        crawl.await.expect("a crawl");
    }
}
