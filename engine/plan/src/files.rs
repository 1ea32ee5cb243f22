//! Plan files: reading them, following `extends`, checking each.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::check::{self, Environment};
use crate::layer::{Layer, LayerKind};
use crate::parse::{self, Format, LARGEST_FILE};
use crate::problem::Problem;
use crate::source::{Node, Place, Source, Spot, Tree};

/// The plan format this program knows.
const FORMAT_VERSION: i128 = 1;

/// Deepest chain of `extends`.
const DEEPEST: usize = 16;

/// Reads files; a trait so that tests need none.
pub trait Files {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files of a directory, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = std::fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        Ok(paths)
    }
}

/// Where the plan comes from.
#[derive(Clone, Debug)]
pub enum PlanSource {
    /// A file.
    Path(PathBuf),
    /// A text in memory, named for messages.
    Text {
        /// The name.
        name: String,
        /// The text.
        text: String,
        /// Its notation.
        format: Format,
    },
}

/// What reading the files gave.
#[derive(Default)]
pub(crate) struct FileLayers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) poisoned: BTreeSet<String>,
    pub(crate) sweep: Option<Place>,
    /// Variables that `${…}` read.
    pub(crate) read: BTreeMap<String, Value>,
    /// Some file could not be read or parsed: what is missing may stand there.
    pub(crate) incomplete: bool,
}

/// Reads the plan and its overlays, each after the files it extends.
pub(crate) struct Reader<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) environment: &'a Environment,
    pub(crate) problems: &'a mut Vec<Problem>,
    pub(crate) out: FileLayers,
}

impl Reader<'_> {
    /// Reads one top file.
    pub(crate) fn top(&mut self, plan: &PlanSource, kind: LayerKind) {
        match plan {
            PlanSource::Path(path) => self.file(path, kind, &mut Vec::new(), None),
            PlanSource::Text { name, text, format } => match parse::decode(name, text.as_bytes()) {
                Ok(source) => self.text(&source, *format, Path::new(""), kind, &mut Vec::new()),
                Err(problem) => self.give_up([problem]),
            },
        }
    }

    fn give_up(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.out.incomplete = true;
        self.problems.extend(problems);
    }

    fn file(&mut self, path: &Path, kind: LayerKind, chain: &mut Vec<PathBuf>, named_at: Option<Place>) {
        let name = path.display().to_string();
        let own_place = || Place { source: Source::new(name.clone(), ""), spot: Spot::default() };
        let Some(format) = Format::of(&name) else {
            let problem = Problem::new("a plan file ends in `.yaml`, `.yml` or `.toml`").at(own_place());
            return self.give_up([problem.help("rename it, so that its notation is known")]);
        };
        let bytes = match self.files.read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let reason = match error.kind() {
                    io::ErrorKind::NotFound => "the file does not exist".to_owned(),
                    io::ErrorKind::IsADirectory => "this is a directory, not a plan file".to_owned(),
                    _ => format!("the file cannot be read: {error}"),
                };
                let problem = match named_at {
                    Some(place) => Problem::new(format!("`{name}`: {reason}"))
                        .at(place)
                        .key("extends")
                        .help("paths under `extends` are relative to the file that names them"),
                    None => Problem::new(reason).at(own_place()),
                };
                return self.give_up([problem]);
            }
        };
        let identity = normal(path);
        chain.push(identity);
        match parse::decode(&name, &bytes) {
            Ok(source) => {
                let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
                self.text(&source, format, &directory, kind, chain);
            }
            Err(problem) => self.give_up([problem]),
        }
        chain.pop();
    }

    fn text(&mut self, source: &Source, format: Format, directory: &Path, kind: LayerKind, chain: &mut Vec<PathBuf>) {
        let Some(root) = parse::document(source, format, self.problems) else { return self.give_up([]) };
        if let Err(problem) = version(&root, source) {
            return self.give_up([problem]);
        }
        for (path, spot) in self.extended(&root, source) {
            let place = Place { source: source.clone(), spot };
            let path = directory.join(path);
            let identity = normal(&path);
            if chain.contains(&identity) {
                let steps: Vec<String> =
                    chain.iter().chain([&identity]).map(|path| path.display().to_string()).collect();
                let problem = Problem::new(format!("the files extend each other: {}", steps.join(" → ")));
                self.give_up([problem.at(place).key("extends").help("remove one of the steps")]);
            } else if chain.len() >= DEEPEST {
                let problem = Problem::new(format!("more than {DEEPEST} files extend one another"));
                self.give_up([problem.at(place).key("extends")]);
            } else {
                self.file(&path, LayerKind::Extends, chain, Some(place));
            }
        }
        let mut checked = check::check(root, source, self.environment, self.problems);
        checked.values.shift_remove("extends");
        checked.values.shift_remove("agentx");
        self.out.poisoned.extend(checked.poisoned.iter().cloned());
        self.out.read.append(&mut checked.read);
        self.out.sweep = checked.sweep.take().or(self.out.sweep.take());
        self.out.layers.push(Layer::checked(kind, source.clone(), checked));
    }

    fn extended(&self, root: &Node, source: &Source) -> Vec<(String, Spot)> {
        let Tree::Map(entries) = &root.value else { return Vec::new() };
        let Some(entry) = entries.iter().find(|entry| entry.key == "extends") else { return Vec::new() };
        let Tree::List(items) = &entry.node.value else { return Vec::new() };
        items
            .iter()
            .filter_map(|item| {
                let mut item = item.clone();
                crate::expand::strings(&mut item, self.environment).ok()?;
                match item.value {
                    Tree::Text(path) => Some((path, item.spot)),
                    _ => None,
                }
            })
            .filter(|_| !source.name.is_empty())
            .collect()
    }
}

/// `a/../b/./c` → `b/c`, without asking the disk.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The version first: a file for a newer program asks for that program instead of complaining of its keys.
fn version(root: &Node, source: &Source) -> Result<(), Problem> {
    let Tree::Map(entries) = &root.value else { return Ok(()) };
    let Some(entry) = entries.iter().find(|entry| entry.key == "agentx") else {
        let place = Place { source: source.clone(), spot: Spot { line: 1, column: 1, width: 1 } };
        return Err(Problem::new("the plan format is not given")
            .at(place)
            .key("agentx")
            .help("begin the file with `agentx: 1` (in TOML: `agentx = 1`)"));
    };
    let place = Place { source: source.clone(), spot: entry.node.spot };
    match entry.node.value {
        Tree::Int(FORMAT_VERSION) => Ok(()),
        Tree::Int(newer) if newer > FORMAT_VERSION => {
            let what = format!("written for plan format {newer}; this program knows format {FORMAT_VERSION}");
            Err(Problem::new(what).at(place).key("agentx").help("use a newer agentx"))
        }
        _ => {
            let what = format!("got {} ({}), not a plan format", entry.node.kind(), entry.node.shown());
            Err(Problem::new(what).at(place).key("agentx").expected("the integer 1"))
        }
    }
}
