//! What prompts are made of: the generator's sessions, and tokenizers with their templates.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::{OWN_SERVER, quick_plan, root, run, run_plan, stderr, stdout, summary};

/// The built-in tokenizer as a folder, with a template that trims what it is given; `change` is done to its file.
fn tokenizer_folder(folder: &Path, change: impl Fn(String) -> String) -> PathBuf {
    let folder = folder.join("tokenizer");
    fs::create_dir(&folder).unwrap();
    let packed = fs::read(root().join("engine/corpus/assets/builtin-tokenizer.json.gz")).unwrap();
    let mut file = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut file).unwrap();
    // So long that it is read in part first, as the files of large tokenizers are.
    file.push_str(&" ".repeat(1 << 20));
    fs::write(folder.join("tokenizer.json"), change(file)).unwrap();
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}";
    fs::write(folder.join("tokenizer_config.json"), serde_json::json!({"chat_template": template}).to_string())
        .unwrap();
    folder
}

fn with_tokenizer(folder: &Path) -> String {
    quick_plan(OWN_SERVER, 1.0, "").replace("source: builtin", &format!("source: \"{}\"", folder.display()))
}

/// Subagents that a turn starts together, at most; side jobs and forks come one by one.
fn widest(fan_out: &str, folder: &Path) -> usize {
    let out = folder.join(format!("fan-out-{fan_out}"));
    let out = out.to_str().unwrap();
    let made = run(&["corpus", "synth", "--traces", "12", "--seed", "4", "--fan-out", fan_out, "--out", out]);
    assert!(made.status.success(), "{}", stderr(&made));
    let topology = run(&["inspect", out, "--format", "topology"]);
    let traces = stdout(&topology);
    let traces = traces.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let conversations = traces.flat_map(|trace| list(&trace["conversations"]));
    let turns = conversations.flat_map(|conversation| list(&conversation["turns"]));
    let is_agent = |branch: &&Value| branch.as_str().unwrap().contains(":spawn:agent");
    turns.map(|turn| list(&turn["spawns"]).iter().filter(is_agent).count()).max().unwrap()
}

#[test]
fn the_generator_starts_no_more_helpers_together_than_it_may() {
    let temp = tempfile::tempdir().unwrap();
    assert!(widest("8", temp.path()) > 1);
    assert_eq!(widest("1", temp.path()), 1);
}

#[test]
fn a_chat_template_that_trims_messages_is_told_in_log_and_result() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let plan = with_tokenizer(&tokenizer_folder(temp.path(), |file| file));
    let ended = run_plan(&plan, &out, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    let result = summary(&out);
    let trimmed = &result["agentx"]["corpus"]["text"]["trimmed"];
    // The built-in tokenizer has a token for the newline alone, and each message ends with one.
    assert!(trimmed["messages"].as_u64() > Some(0), "{trimmed}");
    assert_eq!(trimmed["shorter"], trimmed["messages"]);
    assert_eq!(trimmed["max_tokens"], 1);
    assert!(stderr(&ended).contains("chat template trims messages"), "{}", stderr(&ended));
    assert!(result["agentx"]["client"]["connections_peak"].as_u64() > Some(1), "three lanes with helpers");
}

#[test]
fn damage_behind_what_prompts_need_is_found_before_anything_else_is_counted() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let folder = tokenizer_folder(temp.path(), |file| file.replacen("\"merges\":[", "\"merges\":[[\"é\",\"ø\"],", 1));
    let plan =
        with_tokenizer(&folder).replace("token_counts: server", "token_counts: client, apply_chat_template: true");
    let ended = run_plan(&plan, &out, &[]);
    let text = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("tokenizer.json cannot be used") && text.contains("fetch it again"), "{text}");
    assert!(!out.join("profile_export.jsonl").exists(), "nothing had begun");
}

/// A server whose every answer is this text.
fn server_that_says(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                let mut length = 0;
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink()).unwrap();
                let event = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]});
                let body = format!("data: {event}\n\ndata: [DONE]\n\n");
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nContent-Length";
                write!(stream.get_mut(), "{head}: {}\r\n\r\n{body}", body.len()).unwrap_or_default();
            });
        }
    });
    url
}

#[test]
fn answers_beyond_what_prompts_need_are_counted_with_the_whole_tokenizer_or_the_run_fails() {
    let url = server_that_says("naïve ✓");
    let run_with = |folder: &Path, change: fn(String) -> String| {
        let out = folder.join("run");
        let plan =
            with_tokenizer(&tokenizer_folder(folder, change)).replace("token_counts: server", "token_counts: client");
        let plan = plan.replace(OWN_SERVER, &format!("urls: [\"{url}\"]"));
        (run_plan(&plan, &out, &[]), summary(&out))
    };
    let temp = tempfile::tempdir().unwrap();
    let (ended, result) = run_with(temp.path(), |file| file);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    // `n`, `a`, the two bytes of ï, `ve`, a space, the three bytes of the sign.
    assert_eq!(result["output_sequence_length"]["avg"], 9.0, "{}", result["output_sequence_length"]);

    let temp = tempfile::tempdir().unwrap();
    let (ended, _) = run_with(temp.path(), |file| file.replacen("\"merges\":[", "\"merges\":[[\"é\",\"ø\"],", 1));
    let text = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(
        text.contains("answers were counted as 0 tokens") && text.contains("tokenizer.json cannot be used"),
        "{text}"
    );
}
