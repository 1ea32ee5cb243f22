//! The words that templates are filled with, by their role: what is counted, what is done to it, how it is.

/// A noun and its plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noun {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

/// A verb's forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verb {
    pub(super) base: &'static str,
    pub(super) third_person: &'static str,
    pub(super) participle: &'static str,
    pub(super) gerund: &'static str,
}

/// Software words by role, read from `assets/vocabulary.txt`.
#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    /// The nouns of each topic: a piece speaks of one.
    pub(super) topics: Vec<Vec<Noun>>,
    pub(super) verbs: Vec<Verb>,
    pub(super) adjectives: Vec<&'static str>,
    pub(super) modules: Vec<&'static str>,
    pub(super) flags: Vec<&'static str>,
    pub(super) people: Vec<&'static str>,
    pub(super) errors: Vec<&'static str>,
}

impl Vocabulary {
    /// The embedded vocabulary.
    pub(super) fn embedded() -> Self {
        Self::parse(include_str!("../../assets/vocabulary.txt"))
    }

    fn parse(source: &'static str) -> Self {
        let mut vocabulary = Self::default();
        let mut topic = "";
        for line in source.lines() {
            let Some((kind, rest)) = line.split_once(": ") else { continue };
            let words = rest.split(' ');
            match kind {
                "verb" => vocabulary.verbs.extend(words.filter_map(verb)),
                "adjective" => vocabulary.adjectives.extend(words),
                "module" => vocabulary.modules.extend(words),
                "flag" => vocabulary.flags.extend(words),
                "person" => vocabulary.people.push(rest),
                "error" => vocabulary.errors.push(rest),
                _ if kind.starts_with("noun ") => {
                    if topic != kind {
                        topic = kind;
                        vocabulary.topics.push(Vec::new());
                    }
                    if let Some(nouns) = vocabulary.topics.last_mut() {
                        nouns.extend(words.filter_map(noun));
                    }
                }
                _ => {}
            }
        }
        vocabulary
    }

    /// Nouns of all topics, each with its plural.
    pub(super) fn nouns(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.topics.iter().flatten().flat_map(|noun| [noun.one, noun.many])
    }

    /// Verbs in all forms, and adjectives.
    pub(super) fn others(&self) -> impl Iterator<Item = &'static str> + '_ {
        let verbs = self.verbs.iter().flat_map(|verb| [verb.base, verb.third_person, verb.participle, verb.gerund]);
        verbs.chain(self.adjectives.iter().copied())
    }
}

fn noun(forms: &'static str) -> Option<Noun> {
    let (one, many) = forms.split_once('/')?;
    Some(Noun { one, many })
}

fn verb(forms: &'static str) -> Option<Verb> {
    let mut forms = forms.split('/');
    Some(Verb { base: forms.next()?, third_person: forms.next()?, participle: forms.next()?, gerund: forms.next()? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_role_is_rich_and_plain() {
        let vocabulary = Vocabulary::embedded();
        let nouns: BTreeSet<&str> = vocabulary.nouns().collect();
        let sizes = (nouns.len(), vocabulary.verbs.len(), vocabulary.adjectives.len(), vocabulary.errors.len());
        assert!(sizes.0 > 800 && sizes.1 > 150 && sizes.2 > 170 && sizes.3 > 40, "{sizes:?}");
        assert!(vocabulary.topics.iter().all(|topic| topic.len() > 30));
        let words = nouns.into_iter().chain(vocabulary.others()).chain(vocabulary.modules.iter().copied());
        for word in words {
            assert!(word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
        }
        let texts = vocabulary.errors.iter().chain(&vocabulary.people).chain(&vocabulary.flags);
        assert!(texts.into_iter().all(|text| text.is_ascii() && !text.contains('\'') && text.trim() == *text));
    }

    #[test]
    fn every_line_of_the_asset_is_read() {
        let vocabulary = Vocabulary::embedded();
        let words = include_str!("../../assets/vocabulary.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| match line.split_once(": ") {
                Some(("error" | "person", _)) => 1,
                Some((_, words)) => words.split(' ').count(),
                None => panic!("no kind in {line:?}"),
            })
            .sum::<usize>();
        let read = vocabulary.nouns().count() / 2 + vocabulary.others().count() - 3 * vocabulary.verbs.len()
            + vocabulary.modules.len()
            + vocabulary.flags.len()
            + vocabulary.people.len()
            + vocabulary.errors.len();
        assert_eq!(read, words);
    }

    #[test]
    fn nouns_of_a_topic_differ() {
        for topic in Vocabulary::embedded().topics {
            let distinct: BTreeSet<&str> = topic.iter().map(|noun| noun.one).collect();
            assert_eq!(distinct.len(), topic.len());
        }
    }
}
