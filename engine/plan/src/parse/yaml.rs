//! YAML: structure and places from the event parser, the type of each plain scalar from `serde_yaml`
//! (so `no` is a string and `0o17` a number, as everywhere `serde_yaml` reads).

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::DEEPEST;
use crate::problem::Problem;
use crate::source::{Entry, Node, Place, Source, Spot, Tree};

/// More values than this means aliases that multiply.
const MOST_NODES: usize = 200_000;

pub(super) fn document(source: &Source, problems: &mut Vec<Problem>) -> Option<Node> {
    let (root, found) = Builder::new(source).run();
    let unreadable = !found.is_empty();
    problems.extend(found);
    let what = match root {
        Some(node) if matches!(node.value, Tree::Map(_)) => return Some(node),
        _ if unreadable => return None,
        None | Some(Node { value: Tree::Null, .. }) => "the file is empty".to_owned(),
        Some(node) => format!("the file holds {}, not a map of keys", node.kind()),
    };
    let whole = Place { source: source.clone(), spot: Spot { line: 1, column: 1, width: 1 } };
    problems.push(Problem::new(what).at(whole).help("a plan begins with `agentx: 1`; see `plans/mvp.yaml`"));
    None
}

/// One value written as YAML, as in `--set key=VALUE`.
pub(crate) fn value(source: &Source) -> Result<Node, Vec<Problem>> {
    let (root, problems) = Builder::new(source).run();
    if problems.is_empty() {
        Ok(root.unwrap_or(Node { value: Tree::Null, spot: Spot::default() }))
    } else {
        Err(problems)
    }
}

struct Builder<'a> {
    source: &'a Source,
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    problems: Vec<Problem>,
}

/// The text cannot be read any further; the reason is among the problems.
struct Stop;

impl<'a> Builder<'a> {
    fn new(source: &'a Source) -> Self {
        let parser = Parser::new_from_str(&source.text);
        Self { source, parser, anchors: BTreeMap::new(), nodes: 0, problems: Vec::new() }
    }

    fn run(mut self) -> (Option<Node>, Vec<Problem>) {
        let mut root = None;
        loop {
            match self.next() {
                Err(Stop) | Ok((Event::StreamEnd, _)) => break,
                Ok((Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing, _)) => {}
                Ok((event, span)) if root.is_none() => match self.node(event, span, 0) {
                    Ok(node) => root = Some(node),
                    Err(Stop) => break,
                },
                Ok((_, span)) => {
                    let problem = Problem::new("a second YAML document begins here; a plan is one document");
                    self.report(problem.help("remove the `---` line, or make it a file of its own"), spot(span));
                    // What is missing in the first may stand in the second.
                    root = None;
                    break;
                }
            }
        }
        (root, self.problems)
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, Span::default())),
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                self.scan_error(&error);
                Err(Stop)
            }
        }
    }

    fn scan_error(&mut self, error: &ScanError) {
        let marker = error.marker();
        let spot = Spot { line: marker.line() as u32, column: marker.col() as u32 + 1, width: 1 };
        let mut problem = Problem::new(format!("not valid YAML: {}", error.info()));
        let tabbed = |line: &str| line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
        let first_tab = self.source.text.lines().position(tabbed);
        if let Some(index) = first_tab {
            problem = problem.help(format!("line {} is indented with a tab; YAML wants spaces", index + 1));
        }
        self.report(problem, spot);
    }

    fn report(&mut self, problem: Problem, spot: Spot) {
        self.problems.push(problem.at(Place { source: self.source.clone(), spot }));
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Stop> {
        self.nodes += 1;
        if depth > DEEPEST || self.nodes > MOST_NODES {
            self.report(Problem::new("nested too deeply, or too many values for a plan"), spot(span));
            return Err(Stop);
        }
        let (node, anchor) = match event {
            Event::Alias(id) => return self.alias(id, span),
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    self.report(Problem::new("YAML tags (`!…`) have no meaning in a plan"), spot(span));
                }
                let value = if style == ScalarStyle::Plain { plain(&text) } else { Tree::Text(text.into_owned()) };
                (Node { value, spot: spot(span) }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
                (Node { value: Tree::List(items), spot: spot(span) }, anchor)
            }
            Event::MappingStart(anchor, _) => {
                let entries = self.mapping(depth)?;
                (Node { value: Tree::Map(entries), spot: spot(span) }, anchor)
            }
            _ => {
                self.report(Problem::new("not valid YAML: the document ends too early"), spot(span));
                return Err(Stop);
            }
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<Entry>, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let at = spot(span);
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                Event::Scalar(text, ..) => text.into_owned(),
                other => {
                    let key = self.node(other, span, depth + 1)?;
                    self.report(Problem::new(format!("{} cannot be a key", key.kind())), at);
                    key.shown()
                }
            };
            let (event, value_span) = self.next()?;
            let node = self.node(event, value_span, depth + 1)?;
            if key == "<<" {
                let problem = Problem::new("merge keys (`<<`) are not applied in a plan");
                self.report(problem.help("put what is shared into a file and name it under `extends`"), at);
            } else if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let problem = Problem::new(format!("`{key}` is given twice; the first is in line {}", first.spot.line));
                self.report(problem.help("keep one of them"), at);
            } else {
                entries.push(Entry { key, spot: at, node });
            }
        }
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<Node, Stop> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            self.report(Problem::new("this alias (`*…`) stands inside the value it names"), spot(span));
            return Err(Stop);
        };
        self.nodes += count(&node);
        Ok(Node { value: node.value, spot: spot(span) })
    }
}

fn count(node: &Node) -> usize {
    match &node.value {
        Tree::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Tree::Map(entries) => 1 + entries.iter().map(|entry| count(&entry.node)).sum::<usize>(),
        _ => 1,
    }
}

fn spot(span: Span) -> Spot {
    let one_line = span.start.line() == span.end.line();
    let width = if one_line { span.end.col().saturating_sub(span.start.col()) } else { 1 };
    Spot { line: span.start.line() as u32, column: span.start.col() as u32 + 1, width: width.max(1) as u32 }
}

/// The value of an unquoted scalar.
fn plain(text: &str) -> Tree {
    use serde_yaml::Value;
    match serde_yaml::from_str::<Value>(text) {
        Ok(Value::Null) => Tree::Null,
        Ok(Value::Bool(flag)) => Tree::Bool(flag),
        Ok(Value::Number(number)) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(small), _, _) => Tree::Int(small.into()),
            (_, Some(big), _) => Tree::Int(big.into()),
            (_, _, Some(fraction)) => Tree::Float(fraction),
            _ => Tree::Text(text.to_owned()),
        },
        _ => Tree::Text(text.to_owned()),
    }
}
