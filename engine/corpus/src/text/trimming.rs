//! What a chat template that trims the contents of messages takes off their token counts.

use agentx_types::TokenCounter;

use super::prompt::CorpusText;
use super::templated::{ends, samples};
use crate::tokenizer::{ChatMessage, ChatTemplate, ChatTemplateError};

/// Text that a template may take a newline off.
const PROBE: &str = "value = total;";

/// How much shorter messages are to a server whose chat template trims their contents. Their bytes are the same every
/// time, so that prefixes stay as stable as they were: it is a matter of counting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trimming {
    /// Messages looked at: those of prompts spread over the corpus, in roles that the template trims.
    pub messages: u64,
    /// Of these, messages that lose tokens.
    pub shorter: u64,
    /// Tokens lost, mean over all messages looked at.
    pub mean_tokens: f64,
    /// Tokens lost by one message, at most.
    pub max_tokens: u64,
}

impl CorpusText {
    /// What `template` trims off the messages; none when it leaves the ends of their texts alone. Fails when the template
    /// refuses a chat of a user's message and an answer.
    pub fn trimmed_by(&self, template: &ChatTemplate) -> Result<Option<Trimming>, ChatTemplateError> {
        let roles = trimmed_roles(template)?;
        let tokenizer = self.pool().tokenizer();
        let mut lost: Vec<u64> = Vec::new();
        for at in samples(self) {
            let messages = ends(self, at, None);
            let trimmed = messages.iter().filter(|(role, _)| roles.contains(role));
            lost.extend(trimmed.map(|(_, text)| tokenizer.count(text).abs_diff(tokenizer.count(text.trim()))));
        }
        let messages = lost.len() as u64;
        Ok((messages > 0).then(|| Trimming {
            messages,
            shorter: lost.iter().filter(|&&tokens| tokens > 0).count() as u64,
            mean_tokens: lost.iter().sum::<u64>() as f64 / messages as f64,
            max_tokens: lost.iter().copied().max().unwrap_or(0),
        }))
    }
}

/// Roles whose messages lose a newline at their end.
fn trimmed_roles(template: &ChatTemplate) -> Result<Vec<&'static str>, ChatTemplateError> {
    let with_newline = [PROBE, "\n"].concat();
    let mut trimmed = Vec::new();
    for (role, chat) in [("user", &["user"][..]), ("assistant", &["user", "assistant", "user"][..])] {
        let render = |content: &str| {
            let content = |at: &str| if at == role { content } else { PROBE };
            let messages: Vec<ChatMessage<'_>> =
                chat.iter().map(|&at| ChatMessage { role: at, content: content(at) }).collect();
            template.render(&messages)
        };
        if render(PROBE)? == render(&with_newline)? {
            trimmed.push(role);
        }
    }
    // Some templates refuse a system message, or put it into the user's: where it can be tried, it is.
    let system = |content| {
        template.render(&[ChatMessage { role: "system", content }, ChatMessage { role: "user", content: PROBE }]).ok()
    };
    if system(PROBE).is_some_and(|text| system(&with_newline).as_ref() == Some(&text)) {
        trimmed.push("system");
    }
    Ok(trimmed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::template::Role;
    use crate::text::testing::{pool, segment, template};

    fn chat(content: &str) -> ChatTemplate {
        let text = format!("{{% for message in messages %}}<{{{{ message.role }}}}>{{{{ {content} }}}};{{% endfor %}}");
        ChatTemplate::new(&text, serde_json::Map::new(), PathBuf::from("chat")).unwrap()
    }

    fn text() -> CorpusText {
        let list = vec![segment(Role::System, &[(0, 4)], 0, 0), segment(Role::User, &[(4, 2)], 0, 0)];
        CorpusText::new(vec![template("t", 64, vec![(0, list)])], pool())
    }

    #[test]
    fn a_template_that_trims_takes_the_last_newline() {
        let trimming = text().trimmed_by(&chat("message.content | trim")).unwrap().unwrap();
        // The built-in tokenizer has a token for the newline alone.
        assert_eq!((trimming.messages, trimming.shorter, trimming.max_tokens), (2, 2, 1));
        assert!((trimming.mean_tokens - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_template_that_does_not_trim_takes_nothing() {
        assert_eq!(text().trimmed_by(&chat("message.content")).unwrap(), None);
    }

    #[test]
    fn only_roles_that_are_trimmed_count() {
        let only_users = "message.content | trim if message.role == 'user' else message.content";
        assert_eq!(text().trimmed_by(&chat(only_users)).unwrap().unwrap().messages, 1);
    }
}
