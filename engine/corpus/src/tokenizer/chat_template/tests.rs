#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;

use super::*;

fn template(text: &str) -> Result<ChatTemplate, ChatTemplateError> {
    ChatTemplate::new(text, special_tokens(&json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}})), "t".into())
}

fn render(text: &str) -> String {
    let messages = [
        ChatMessage { role: "system", content: " Be <brief>. " },
        ChatMessage { role: "user", content: "Hi\n" },
        ChatMessage { role: "assistant", content: "Ho" },
    ];
    template(text).unwrap().render(&messages).unwrap()
}

/// What Python's Jinja2 with the settings of `transformers` gives, too.
#[test]
fn templates_render_as_in_python() {
    for (text, expected) in [
        ("{{ bos_token }}{{ eos_token }}|{{ pad_token }}", "<s></s>|"),
        ("{% if tools %}no{% endif %}{% if tools is none %}none{% endif %}{{ documents }}", "noneNone"),
        ("{% for m in messages %}\n  {{- m['role'][0] ~ m.content|length }}\n{% endfor %}\nend\n", "s13\nu3\na2\nend"),
        ("{{ messages[0].content.strip().upper() }}", "BE <BRIEF>."),
        ("{{ messages[1]['content'] | trim }}.{{ messages[-1].content.startswith('H') }}", "Hi.True"),
        ("{% for m in messages[::-1] %}{{ m.role[:2] }}{% endfor %}", "asussy"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "3"),
        ("{% for m in messages %}{% if m.role == 'user' %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{{ messages[0] | tojson }}", "{\"role\": \"system\", \"content\": \" Be <brief>. \"}"),
        ("{{ [1, 'a\\'b'] | tojson }}", "[1, \"a'b\"]"),
        ("{{ 'a</think>b'.split('</think>')[-1] }}", "b"),
        ("{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d') }}", "26 Jul 2024 2024-07-26"),
        ("a{%- generation -%} b {%- endgeneration %}c", "abc"),
        ("{% if add_generation_prompt %}go{% endif %}{% if enable_thinking is defined %}no{% endif %}", "go"),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) }}", "<1>"),
        ("{{ messages[1].tool_calls }}{{ messages[1].content is string }}", "True"),
        ("{% for k, v in messages[2].items() %}{{ k }}={{ v }};{% endfor %}", "role=assistant;content=Ho;"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ (messages | map(attribute='role') | list) | join('/') }}", "system/user/assistant"),
        ("{{ messages[1].get('name', 'none') }}", "none"),
    ] {
        assert_eq!(render(text), expected, "{text}");
    }
}

#[test]
fn a_template_that_cannot_be_used_says_why() {
    let syntax = template("{% if %}").unwrap_err();
    assert!(matches!(syntax, ChatTemplateError::Syntax { .. }), "{syntax}");
    let refused = template("\n{{ raise_exception('System role not supported') }}").unwrap().render(&[]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "tokenizer.apply_chat_template: the template in t refuses a prompt: System role not supported (line 2); a \
         server that applies it would refuse the request too; leave apply_chat_template false if the server has \
         another template"
    );
}

#[test]
fn the_template_is_found_beside_the_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().to_str().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let load = || ChatTemplate::load(source, None);
    assert!(matches!(load(), Err(ChatTemplateError::Tokenizer(_))));
    put("tokenizer.json", "{}");
    let missing = load().unwrap_err().to_string();
    for name in
        ["chat_template.jinja", "chat_template.json", "tokenizer_config.json", "leave apply_chat_template false"]
    {
        assert!(missing.contains(name), "{missing}");
    }
    let hello = |loaded: ChatTemplate| loaded.render(&[]).unwrap();
    put(CONFIG, &json!({"eos_token": "E", "chat_template": "text{{ eos_token }}"}).to_string());
    assert_eq!(hello(load().unwrap()), "textE");
    let list = json!([{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]);
    put(CONFIG, &json!({"eos_token": "E", "chat_template": list}).to_string());
    assert_eq!(hello(load().unwrap()), "default");
    put(CONFIG, &json!({"chat_template": [list[0], list[0]]}).to_string());
    assert!(matches!(load(), Err(ChatTemplateError::Damaged { .. })));
    put(CONFIG, &json!({"eos_token": "E"}).to_string());
    put("chat_template.json", &json!({"chat_template": "json{{ eos_token }}"}).to_string());
    assert_eq!(hello(load().unwrap()), "jsonE");
    put("chat_template.jinja", "jinja{{ eos_token }}\n");
    let loaded = load().unwrap();
    assert_eq!(loaded.origin(), folder.path().join("chat_template.jinja"));
    assert_eq!(hello(loaded), "jinjaE");
    put(CONFIG, "{");
    assert!(matches!(load(), Err(ChatTemplateError::Damaged { .. })));
    let builtin = ChatTemplate::load("builtin", None).unwrap_err();
    assert!(builtin.to_string().contains("has no chat template"), "{builtin}");
}
