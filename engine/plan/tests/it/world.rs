//! Files, variables and options of one test.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use agentx_plan::{Files, Format, Loaded, PlanFailure, PlanRequest, PlanSource, load};

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    files: BTreeMap<PathBuf, Vec<u8>>,
    environment: BTreeMap<String, String>,
    overlays: Vec<PathBuf>,
    sets: Vec<String>,
    unsafe_override: bool,
    scenario_dir: Option<PathBuf>,
}

impl Files for World {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut normal = PathBuf::new();
        for part in path.components() {
            if part == std::path::Component::ParentDir {
                normal.pop();
            } else {
                normal.push(part);
            }
        }
        self.files.get(&normal).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.files.keys().filter(|path| path.starts_with(directory)).cloned().collect())
    }
}

/// The seed that tests draw.
pub(crate) const DRAWN: u64 = 736_936_370_997_831_011;

impl World {
    pub(crate) fn file(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(path.into(), text.as_ref().to_vec());
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    pub(crate) fn overlay(mut self, path: &str, text: &str) -> Self {
        self.overlays.push(path.into());
        self.file(path, text)
    }

    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.sets.push(setting.into());
        self
    }

    pub(crate) fn unsafe_override(mut self) -> Self {
        self.unsafe_override = true;
        self
    }

    pub(crate) fn scenario_dir(mut self, path: &str) -> Self {
        self.scenario_dir = Some(path.into());
        self
    }

    pub(crate) fn load(&self, plan: PlanSource) -> Result<Loaded, PlanFailure> {
        load(&PlanRequest {
            plan,
            overlays: self.overlays.clone(),
            sets: self.sets.clone(),
            unsafe_override: self.unsafe_override,
            options: Vec::new(),
            scenario_dir: self.scenario_dir.clone(),
            environment: self.environment.clone(),
            files: self,
            draw_seed: &|| DRAWN,
            command_line: "agentx run plan.yaml".into(),
        })
    }

    /// Loads the file of that name.
    pub(crate) fn run(&self, path: &str) -> Result<Loaded, PlanFailure> {
        self.load(PlanSource::Path(path.into()))
    }

    /// Loads a plan in memory.
    pub(crate) fn yaml(&self, text: &str) -> Result<Loaded, PlanFailure> {
        self.load(PlanSource::Text { name: "plan.yaml".into(), text: text.into(), format: Format::Yaml })
    }

    /// What is said against a plan.
    pub(crate) fn refusal(&self, text: &str) -> String {
        match self.yaml(text) {
            Ok(loaded) => format!("no refusal; outcome {:?}, warnings {:?}", loaded.outcome, loaded.warnings),
            Err(failure) => format!("exit {}\n{}", failure.exit_code(), failure.text()),
        }
    }
}

/// A valid plan under the MVP scenario, and more lines.
pub(crate) fn mvp(more: &str) -> String {
    format!(
        "agentx: 1\nscenario: inferencex-agentx-mvp@1\nmodel: {{names: [m]}}\nload: {{concurrency: 4}}\n\
         corpus: {{alias: semianalysis_cc_traces_weka_062126}}\n{more}\n"
    )
}

/// The same under the preset agentx.
pub(crate) fn agentx(more: &str) -> String {
    mvp(more).replace("inferencex-agentx-mvp@1", "agentx@1")
}
