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

/// A command line of the binary, in the workspace's folder, with no variables that would change a plan, and no network.
pub(crate) fn agentx(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentx"));
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["AGENTX_", "AIPERF_", "HF_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    command.env("HF_HUB_OFFLINE", "1").env_remove("XDG_CACHE_HOME");
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

/// A JSON file.
pub(crate) fn json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The summary in a result folder.
pub(crate) fn summary(folder: &Path) -> Value {
    json(folder.join("profile_export_aiperf.json"))
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

/// A plan file on the demo corpus and under a scenario against `url`, `seconds` of profiling.
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

/// A server within the run, for [`quick_plan`].
pub(crate) const OWN_SERVER: &str = "mock: {ttft_ms: 10, itl_ms: 1}";

/// The text of a plan on the demo corpus without scenario and with next to no idle time: `seconds` of profiling against
/// `target`, with `more` lines.
pub(crate) fn quick_plan(target: &str, seconds: f64, more: &str) -> String {
    format!(
        "agentx: 1\ntitle: test\ntarget: {{streaming: true, {target}}}\nmodel: {{names: [demo-model]}}\n\
         tokenizer: {{source: builtin, token_counts: server}}\n\
         corpus: {{path: \"builtin:demo\", format: weka_trace}}\nload: {{concurrency: 3}}\n\
         timing: {{system_idle_cap: 0.3, turn_delay_cap: 0.4}}\n\
         profiling: {{duration: {seconds}, grace: 5}}\nsampling: {{seed: 7}}\n{more}\n"
    )
}

/// Writes `plan` beside `out` and starts it.
pub(crate) fn start_plan(plan: &str, out: &Path, more: &[&str]) -> Child {
    let file = out.with_extension("yaml");
    fs::write(&file, plan).unwrap();
    let mut command = agentx(&["run"]);
    command.arg(&file).arg("--out").arg(out).args(["--overwrite", "--ui", "none"]).args(more);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Writes `plan` beside `out` and runs it to its end.
pub(crate) fn run_plan(plan: &str, out: &Path, more: &[&str]) -> Output {
    start_plan(plan, out, more).wait_with_output().unwrap()
}
