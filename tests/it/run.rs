//! The binary and its servers as child processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A plan of the built-in sessions, quick: no idle time to speak of.
pub(crate) fn plan(target: &str, duration: f64, more: &str) -> String {
    format!(
        "agentx: 1\ntitle: test\ntarget:\n  streaming: true\n{target}\nmodel:\n  names: [demo-model]\ntokenizer:\n  source: \
         builtin\n  token_counts: server\ncorpus:\n  path: builtin:demo\n  format: weka_trace\nload:\n  concurrency: \
         3\ntiming:\n  system_idle_cap: 0.3\n  turn_delay_cap: 0.4\nprofiling:\n  duration: {duration}\n  grace: \
         5\nsampling:\n  seed: 7\n{more}"
    )
}

pub(crate) const OWN_SERVER: &str = "  mock:\n    ttft_ms: 10\n    itl_ms: 1\n";

pub(crate) fn agentx() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentx"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AGENTX_") || name.to_string_lossy().starts_with("AIPERF_") {
            command.env_remove(name);
        }
    }
    command
}

/// Writes `plan` beside `out` and runs it to its end.
pub(crate) fn run(plan: &str, out: &Path, more: &[&str]) -> Output {
    start(plan, out, more).wait_with_output().unwrap()
}

/// Writes `plan` beside `out` and starts it.
pub(crate) fn start(plan: &str, out: &Path, more: &[&str]) -> Child {
    let file = out.with_extension("yaml");
    std::fs::write(&file, plan).unwrap();
    let mut command = agentx();
    command.arg("run").arg(&file).arg("--out").arg(out).args(["--overwrite", "--ui", "none"]).args(more);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The mock server in a process of its own.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) log: PathBuf,
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Self {
        let log = dir.join("server.jsonl");
        let mut command = agentx();
        command.args(["mock-server", "--ttft-ms", "10", "--itl-ms", "1", "--log"]).arg(&log);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Self { child, port, log }
    }

    pub(crate) fn target(&self) -> String {
        format!("  urls: [\"http://127.0.0.1:{}\"]\n", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}
