//! The scenarios this program knows: the bundled ones, and those of `--scenario-dir`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::preset::{self, Preset, hex};
use crate::files::Files;
use crate::parse;
use crate::problem::Problem;
use crate::source::{Place, Source, Spot};

/// Bundled files: path and text.
const BUNDLED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// Where a scenario comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// In the program, byte for byte.
    Bundled,
    /// Another file: a result under it is never valid.
    External,
}

/// A scenario in the catalog.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) preset: Preset,
    pub(crate) origin: Origin,
    pub(crate) text: String,
}

/// All known scenarios, sorted by name and version.
#[derive(Clone, Debug)]
pub struct Catalog {
    listed: Vec<Listed>,
}

impl Catalog {
    /// The bundled scenarios.
    pub fn bundled() -> Result<Catalog, Vec<Problem>> {
        let mut catalog = Catalog { listed: Vec::new() };
        for (name, text) in BUNDLED {
            catalog.add(&Source::new(*name, *text), Origin::Bundled)?;
        }
        Ok(catalog)
    }

    /// The bundled ones and the `*.toml` of a directory, which replace bundled ones of the same name and version.
    pub fn with_directory(files: &dyn Files, directory: Option<&Path>) -> Result<Catalog, Vec<Problem>> {
        let mut catalog = Catalog::bundled()?;
        let Some(directory) = directory else { return Ok(catalog) };
        let whole = |name: String| Place { source: Source::new(name, ""), spot: Spot::default() };
        let failed = |name: String, error: std::io::Error| {
            vec![
                Problem::new(format!("cannot be read: {error}")).at(whole(name)).help("it was given as --scenario-dir"),
            ]
        };
        let paths = files.list(directory).map_err(|error| failed(directory.display().to_string(), error))?;
        for path in paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let name = path.display().to_string();
            let bytes = files.read(&path).map_err(|error| failed(name.clone(), error))?;
            let source = parse::decode(&name, &bytes).map_err(|problem| vec![problem])?;
            let bundled = BUNDLED.iter().any(|(_, text)| *text == &*source.text);
            catalog.add(&source, if bundled { Origin::Bundled } else { Origin::External })?;
        }
        Ok(catalog)
    }

    fn add(&mut self, source: &Source, origin: Origin) -> Result<(), Vec<Problem>> {
        let preset = preset::read(source, &base)?;
        self.listed.retain(|listed| listed.preset.id() != preset.id());
        self.listed.push(Listed { preset, origin, text: source.text.to_string() });
        self.listed.sort_by(|a, b| (&a.preset.name, a.preset.version).cmp(&(&b.preset.name, b.preset.version)));
        Ok(())
    }

    /// `name@version` of each, sorted.
    pub fn ids(&self) -> Vec<String> {
        self.listed.iter().map(|listed| listed.preset.id()).collect()
    }

    /// A scenario by `name` (the newest version) or `name@version`.
    pub fn get(&self, id: &str) -> Option<&Preset> {
        self.find(id).map(|listed| &listed.preset)
    }

    /// The file of a scenario, as text.
    pub fn text(&self, id: &str) -> Option<&str> {
        self.find(id).map(|listed| listed.text.as_str())
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Listed> {
        match id.split_once('@') {
            Some((name, version)) => {
                let version: u32 = version.parse().ok()?;
                self.listed.iter().find(|listed| listed.preset.name == name && listed.preset.version == version)
            }
            None => self.listed.iter().filter(|listed| listed.preset.name == id).max_by_key(|l| l.preset.version),
        }
    }
}

impl Listed {
    /// Digest of the file, hex.
    pub(crate) fn file_sha256(&self) -> String {
        hex(self.text.as_bytes())
    }
}

/// The tables of a bundled scenario that derives from none.
fn base(id: &str) -> Result<Map<String, Value>, String> {
    let known = BUNDLED.iter().filter_map(|(name, text)| preset::raw(&Source::new(*name, *text)));
    let named = |table: &Map<String, Value>| {
        let name = table.get("name").and_then(Value::as_str).unwrap_or("");
        let version = table.get("version").and_then(Value::as_u64).unwrap_or(0);
        format!("{name}@{version}") == id
    };
    match known.into_iter().find(named) {
        None => Err(format!("the base `{id}` is no bundled scenario (name@version)")),
        Some(table) if table.contains_key("base") => {
            Err(format!("the base `{id}` derives from another one; one level is possible"))
        }
        Some(table) => Ok(table),
    }
}
