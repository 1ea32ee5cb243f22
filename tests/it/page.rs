//! The page in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{OWN_SERVER, quick_plan, run_plan, stderr};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    BROWSERS.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name))).find(|p| p.is_file())
}

fn attribute<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = dom.split_once(&format!("data-{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[test]
fn the_page_renders_without_errors_and_shows_every_lane() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium on this machine");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let ended = run_plan(&quick_plan(OWN_SERVER, 3.0, ""), &out, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let dom = open(&browser, &out.join("report.html"), &temp.path().join("profile"));
    let records = std::fs::read_to_string(out.join("profile_export.jsonl")).unwrap().lines().count();
    assert_eq!(attribute(&dom, "errors"), None);
    assert_eq!(attribute(&dom, "ready"), Some("yes"));
    assert_eq!(attribute(&dom, "lanes"), Some("3"));
    assert_eq!(attribute(&dom, "records"), Some(records.to_string().as_str()));
    assert_eq!(attribute(&dom, "charts"), Some("9"), "seven charts of the client, two of the server's own metrics");
}

/// The document after its scripts have run; a line on the console fails the test.
fn open(browser: &Path, page: &Path, profile: &Path) -> String {
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ];
    let mut command = Command::new(browser);
    command.args(flags).arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", page.display()));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("CONSOLE"), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
