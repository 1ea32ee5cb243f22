//! Metrics pages that behave, and pages that do not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentx_types::{Nanos, RunClock};

use super::server::{Server, Step};
use crate::{Scrape, ScrapeOptions, ScrapeTarget, Scraper, WireError, WireOptions};

fn page(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn answering(body: &str) -> Server {
    Server::answering(vec![Step::Write(page(body))])
}

fn target(port: u16) -> ScrapeTarget {
    ScrapeTarget::configured(&format!("127.0.0.1:{port}"))
}

/// Scrapes with short limits for a while; what came in, and how many answered at first.
fn scrape(targets: Vec<ScrapeTarget>, interval_ms: u64, run_ms: u64) -> (Vec<Scrape>, usize, Nanos) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let clock = RunClock::start();
    let options = ScrapeOptions {
        timeout: Duration::from_millis(1500),
        size_limit: 100_000,
        ..ScrapeOptions::new(targets, Duration::from_millis(interval_ms))
    };
    let take = Box::new(move |scrape| sink.lock().expect("no test panics here").push(scrape));
    let scraper = Scraper::start(&WireOptions::default(), options, clock, take).expect("a scraper");
    let reachable = scraper.baseline(Duration::from_secs(5));
    scraper.finish(Duration::from_millis(run_ms));
    let seen = seen.lock().expect("no test panics here").clone();
    (seen, reachable, clock.now())
}

#[test]
fn a_page_is_asked_again_and_again() {
    let server = answering("up 1\n");
    let (seen, reachable, _) = scrape(vec![target(server.port)], 50, 1500);
    assert_eq!(reachable, 1);
    assert!(seen.len() >= 2, "{} scrapes", seen.len());
    assert!(seen.iter().all(|scrape| scrape.body == "up 1\n" && scrape.url.ends_with("/metrics")));
    assert!(seen.windows(2).all(|pair| pair[0].at < pair[1].at));
}

#[test]
fn a_poke_does_not_wait_for_the_interval() {
    let server = answering("up 1\n");
    let seen = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&seen);
    let options = ScrapeOptions::new(vec![target(server.port)], Duration::from_hours(1));
    let take = Box::new(move |_| *sink.lock().expect("no test panics here") += 1);
    let scraper = Scraper::start(&WireOptions::default(), options, RunClock::start(), take).expect("a scraper");
    assert_eq!(scraper.baseline(Duration::from_secs(5)), 1);
    scraper.poke().now();
    let clock = RunClock::start();
    while *seen.lock().expect("no test panics here") < 2 && clock.now() < Nanos::from_seconds(5.0) {
        std::thread::yield_now();
    }
    drop(scraper);
    assert_eq!(*seen.lock().expect("no test panics here"), 2);
}

#[test]
fn hostile_pages_cost_neither_time_nor_memory_nor_the_others() {
    let good = answering("up 1\n");
    let silent = Server::start(vec![vec![Step::Read, Step::AwaitClose]]);
    let trickling = Server::start(vec![vec![
        Step::Read,
        Step::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n".to_vec()),
        Step::Wait(60_000),
    ]]);
    let huge = answering(&"x 1\n".repeat(60_000));
    let missing = Server::answering(vec![Step::Write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec())]);
    let garbage = Server::start(vec![vec![Step::Read, Step::Write(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), Step::Close]]);
    let resetting = Server::start(vec![vec![Step::Read, Step::Reset]]);
    let servers = [&good, &silent, &trickling, &huge, &missing, &garbage, &resetting];
    let targets = servers.iter().map(|server| target(server.port)).chain([target(1)]).collect();
    let (seen, reachable, took) = scrape(targets, 50, 1500);
    assert_eq!(reachable, 1, "only one page is worth the name");
    assert!(seen.len() >= 2 && seen.iter().all(|scrape| scrape.url.contains(&good.port.to_string())));
    assert!(took < Nanos::from_seconds(20.0), "ending took {} s", took.as_seconds());
}

#[test]
fn a_url_with_a_password_is_refused_without_repeating_it() {
    let target = ScrapeTarget::configured("http://user:hunter2@host/metrics");
    let options = ScrapeOptions::new(vec![target], Duration::from_secs(1));
    let error = Scraper::start(&WireOptions::default(), options, RunClock::start(), Box::new(|_| {})).err();
    assert!(matches!(error, Some(WireError::MetricsUrl { .. })));
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("`host`") && !text.contains("hunter2"), "{text}");
}
