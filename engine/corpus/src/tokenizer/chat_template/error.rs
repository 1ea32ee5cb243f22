//! Why a chat template could not be had or rendered.

use std::io;
use std::path::PathBuf;

use crate::tokenizer::TokenizerError;

/// A chat template that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatTemplateError {
    /// The built-in tokenizer is no model's.
    #[error(
        "tokenizer.apply_chat_template: the `builtin` tokenizer has no chat template; set tokenizer.source to the \
         model's own tokenizer, or leave apply_chat_template false"
    )]
    Builtin,
    /// The tokenizer itself is not there.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// No file holds a template.
    #[error(
        "tokenizer.apply_chat_template: tokenizer `{wanted}` has no chat template: looked for {}{}; put the model's \
         chat_template.jinja or tokenizer_config.json beside its tokenizer.json, or leave apply_chat_template false",
        .looked_for.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        .hub.as_ref().map(|what| format!(" (the hub: {what})")).unwrap_or_default()
    )]
    Missing {
        /// What the plan asks for.
        wanted: String,
        /// Every file that was tried.
        looked_for: Vec<PathBuf>,
        /// What kept the hub from giving the last one.
        hub: Option<String>,
    },
    /// A file is there and cannot be read.
    #[error("tokenizer.apply_chat_template: {} cannot be read: {reason}; check its permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        reason: io::Error,
    },
    /// A file holds something else.
    #[error("tokenizer.apply_chat_template: {} cannot be used: {reason}; fetch it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The template cannot be compiled.
    #[error(
        "tokenizer.apply_chat_template: the template in {} cannot be compiled: {reason}; leave apply_chat_template \
         false, or put a chat_template.jinja in plain Jinja beside it",
        .path.display()
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The template does not take these messages (roles that do not alternate, a system message).
    #[error(
        "tokenizer.apply_chat_template: the template in {} refuses a prompt: {reason}; a server that applies it would \
         refuse the request too; leave apply_chat_template false if the server has another template",
        .path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the template says.
        reason: String,
    },
}
