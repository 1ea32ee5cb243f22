//! The chat template that a tokenizer comes with: a server wraps it around the messages before it counts them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, Value, context};
use serde::Serialize;
use serde::ser::Error as _;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::locate;
use crate::hub::{Hub, is_repository_name};

mod error;
mod strftime;

pub use error::ChatTemplateError;

const NAME: &str = "chat";
const CONFIG: &str = "tokenizer_config.json";
/// Files that hold nothing but a template, before the one in [`CONFIG`].
const OWN_FILES: [&str; 2] = ["chat_template.jinja", "chat_template.json"];

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChatMessage<'a> {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'a str,
    /// The text.
    pub content: &'a str,
}

/// A tokenizer's chat template, compiled; cheap to clone. Rendering depends on nothing but the messages: templates that
/// ask for today's date get [`ChatTemplate::DATE`].
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    special: Arc<serde_json::Map<String, serde_json::Value>>,
    origin: PathBuf,
}

impl ChatTemplate {
    /// What `strftime_now` gives, whenever it is asked: the same prompts have the same lengths on every day.
    pub const DATE: &'static str = "2024-07-26";

    /// The template beside the tokenizer that `source` means (see [`Tokenizer::load`](super::Tokenizer::load)): a
    /// `chat_template.jinja`, a `chat_template.json`, or the `chat_template` of `tokenizer_config.json`.
    pub fn load(source: &str, revision: Option<&str>) -> Result<Self, ChatTemplateError> {
        Self::find(source, revision, true)
    }

    /// The same, from files that are on this machine already.
    pub fn load_local(source: &str, revision: Option<&str>) -> Result<Self, ChatTemplateError> {
        Self::find(source, revision, false)
    }

    fn find(source: &str, revision: Option<&str>, ask_hub: bool) -> Result<Self, ChatTemplateError> {
        if source == "builtin" {
            return Err(ChatTemplateError::Builtin);
        }
        let hub = Hub::from_env();
        let tokenizer = locate::locate(source, revision, &hub)?;
        let folder = tokenizer.parent().unwrap_or(Path::new("."));
        let from_hub = ask_hub && !Path::new(source).exists() && is_repository_name(source);
        let mut trouble = None;
        let mut find = |name: &str| {
            let beside = folder.join(name);
            if !from_hub || beside.is_file() {
                return beside;
            }
            // Most repositories hold one of the files only.
            match hub.model_file(source, revision.unwrap_or("main"), name) {
                Ok(file) => file.path,
                Err(error) => {
                    trouble = Some(error.to_string());
                    beside
                }
            }
        };
        let config_path = find(CONFIG);
        let config = json(&config_path)?.unwrap_or_default();
        let special = special_tokens(&config);
        if let Some(text) = template_in(&config, &config_path)? {
            // A template of its own file goes first; the hub is not asked for one when the configuration has it.
            let own = OWN_FILES.map(|name| folder.join(name));
            if let Some((text, path)) = own_template(&own)? {
                return Self::new(&text, special, path);
            }
            return Self::new(&text, special, config_path);
        }
        let own = OWN_FILES.map(&mut find);
        if let Some((text, path)) = own_template(&own)? {
            return Self::new(&text, special, path);
        }
        let looked_for = own.into_iter().chain([config_path]).collect();
        Err(ChatTemplateError::Missing { wanted: source.to_owned(), looked_for, hub: trouble })
    }

    /// From a template's text and the special tokens that it may name (`bos_token`, `eos_token`, …); `origin` only
    /// serves messages.
    pub fn new(
        text: &str,
        special: serde_json::Map<String, serde_json::Value>,
        origin: PathBuf,
    ) -> Result<Self, ChatTemplateError> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: &str| strftime::at_the_fixed_date(format));
        environment.add_filter("tojson", tojson);
        if let Err(error) = environment.add_template_owned(NAME, without_generation_marks(text)) {
            return Err(ChatTemplateError::Syntax { path: origin, reason: told(&error) });
        }
        Ok(Self { environment: Arc::new(environment), special: Arc::new(special), origin })
    }

    /// The file that it comes from.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// The text that a server tokenizes for `messages`: without tools, ready for the assistant's answer.
    pub fn render(&self, messages: &[ChatMessage<'_>]) -> Result<String, ChatTemplateError> {
        let special = Value::from_serialize(&*self.special);
        let given = context! {
            messages => messages, add_generation_prompt => true, tools => (), documents => (), ..special
        };
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(given))
            .map_err(|error| ChatTemplateError::Refused { path: self.origin.clone(), reason: told(&error) })
    }
}

/// An error with its line, and nothing of the template's text.
fn told(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    error.line().map_or(what.clone(), |line| format!("{what} (line {line})"))
}

fn read(path: &Path) -> Result<Option<String>, ChatTemplateError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(ChatTemplateError::Unreadable { path: path.to_owned(), reason }),
    }
}

fn json(path: &Path) -> Result<Option<serde_json::Value>, ChatTemplateError> {
    let Some(text) = read(path)? else { return Ok(None) };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| ChatTemplateError::Damaged { path: path.to_owned(), reason: format!("not JSON ({error})") })
}

/// The first template that is in a file of its own.
fn own_template(files: &[PathBuf]) -> Result<Option<(String, PathBuf)>, ChatTemplateError> {
    for path in files {
        let text = if path.extension().is_some_and(|extension| extension == "json") {
            json(path)?.map(|value| template_in(&value, path)).transpose()?.flatten()
        } else {
            read(path)?
        };
        if let Some(text) = text {
            return Ok(Some((text, path.clone())));
        }
    }
    Ok(None)
}

/// `chat_template`: a text, or a list of `{name, template}` of which the one named `default` (or the only one) counts.
fn template_in(config: &serde_json::Value, path: &Path) -> Result<Option<String>, ChatTemplateError> {
    let damaged = |reason: &str| ChatTemplateError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    match config.get("chat_template") {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(serde_json::Value::String(text)) => Ok(Some(text.clone())),
        Some(serde_json::Value::Array(list)) => {
            let default = list.iter().find(|entry| entry["name"] == "default");
            let only = list.first().filter(|_| list.len() == 1);
            let text = default.or(only).and_then(|entry| entry["template"].as_str());
            text.map(|text| Some(text.to_owned()))
                .ok_or_else(|| damaged("its chat_template is a list without a template named `default`"))
        }
        Some(_) => Err(damaged("its chat_template is neither a text nor a list")),
    }
}

/// `bos_token` and the like, each a text or an object with its `content`.
fn special_tokens(config: &serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
    let entries = config.as_object().into_iter().flatten();
    entries
        .filter(|(name, _)| name.ends_with("_token"))
        .filter_map(|(name, value)| {
            let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
            Some((name.clone(), text.into()))
        })
        .collect()
}

/// `{% generation %}` marks what a model learns from and renders nothing; it is not known here.
fn without_generation_marks(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}").map(|end| end + 2) else { break };
        let tag = &rest[start..start + length];
        out.push_str(&rest[..start]);
        match tag[2..length - 2].trim_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

/// As Python writes JSON: nothing escaped for HTML, a space behind each comma and colon.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
fn tojson(value: &Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let mut out = Vec::new();
    let written = match indent {
        Some(width) => write_json(value, PrettyFormatter::with_indent(" ".repeat(width).as_bytes()), &mut out),
        None => write_json(value, PythonFormatter, &mut out),
    };
    let text = written.and_then(|()| String::from_utf8(out).map_err(serde_json::Error::custom));
    text.map(Value::from_safe_string)
        .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn write_json(value: &Value, formatter: impl Formatter, out: &mut Vec<u8>) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, formatter))
}

struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests;
