//! Running the binary and a mock server beside it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Test data of our own.
pub(crate) fn data(name: &str) -> PathBuf {
    root().join("tests/data").join(name)
}

/// Shared data that is too big for the repository; says so when it is not there.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("AGENTX_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    #[expect(clippy::print_stderr, reason = "a skipped check must be seen")]
    {
        eprintln!("skipped: {} is not there", path.display());
    }
    None
}

/// A command line of the binary, in the workspace's folder and with a clean environment.
pub(crate) fn agentx(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentx"));
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars() {
        if name.starts_with("AGENTX_") || name.starts_with("AIPERF_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    agentx(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The summary in a result folder.
pub(crate) fn summary(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("profile_export_aiperf.json")).unwrap()).unwrap()
}

/// The records in a result folder.
pub(crate) fn records(folder: &Path) -> Vec<Value> {
    lines(&folder.join("profile_export.jsonl"))
}

/// A file of JSON lines.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `agentx mock-server` in a process of its own.
pub(crate) struct MockServer {
    child: Child,
    pub(crate) url: String,
}

impl MockServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child =
            agentx(&["mock-server"]).args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening ").unwrap();
        Self { url: format!("http://127.0.0.1:{port}"), child }
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A plan on the demo corpus against `url`, `seconds` of profiling.
pub(crate) fn plan(folder: &Path, url: &str, seconds: f64, more: &str) -> PathBuf {
    let path = folder.join("plan.yaml");
    let text = format!(
        "agentx: 1\nscenario: inferencex-agentx-mvp@1\nunsafe_override: true\n\
         target: {{urls: [\"{url}\"]}}\nmodel: {{names: [demo-model]}}\n\
         tokenizer: {{source: builtin, token_counts: server}}\n\
         corpus: {{path: \"builtin:demo\", format: weka_trace}}\nload: {{concurrency: 3}}\n\
         profiling: {{duration: {seconds}, grace: 5}}\nsampling: {{seed: 7}}\n{more}\n"
    );
    fs::write(&path, text).unwrap();
    path
}
