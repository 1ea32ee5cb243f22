//! Where traces come from: files, a folder, a published corpus of the hub, or the demo corpus in the binary.

use std::path::PathBuf;

use agentx_corpus::Hub;
use agentx_corpus::synth::SynthOptions;
use agentx_plan::{ResolvedPlan, resolve_alias};

use crate::corpus::write_synthetic;
use crate::failure::Failure;
use crate::logging;

/// Spelling of the demo corpus in a plan.
const DEMO: &str = "builtin:demo";

/// The demo corpus: sessions of our own in the trace format.
const DEMO_TRACES: [(&str, &str); 6] = [
    ("demo_01_feature.json", include_str!("demo/demo_01_feature.json")),
    ("demo_02_bugfix.json", include_str!("demo/demo_02_bugfix.json")),
    ("demo_03_review.json", include_str!("demo/demo_03_review.json")),
    ("demo_04_refactor.json", include_str!("demo/demo_04_refactor.json")),
    ("demo_05_explore.json", include_str!("demo/demo_05_explore.json")),
    ("demo_06_release.json", include_str!("demo/demo_06_release.json")),
];

/// Traces on this machine.
pub(crate) struct CorpusSource {
    /// Files and folders to load.
    pub(crate) paths: Vec<PathBuf>,
    /// As the results name it: path or repository.
    pub(crate) name: String,
    /// Revision of a hub corpus.
    pub(crate) revision: Option<String>,
    /// `metadata.dataset` of a public corpus.
    pub(crate) dataset: Option<serde_json::Value>,
    /// Keeps the unpacked demo corpus while it is read.
    _unpacked: Option<tempfile::TempDir>,
}

impl CorpusSource {
    fn local(paths: Vec<PathBuf>) -> Self {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        Self { paths, name: names.join(" "), revision: None, dataset: None, _unpacked: None }
    }

    /// The corpus of a plan.
    pub(crate) fn of_plan(plan: &ResolvedPlan) -> Result<Self, Failure> {
        let corpus = &plan.corpus;
        if let Some(path) = &corpus.path {
            return Self::of_paths(&[PathBuf::from(path)]);
        }
        if let Some(options) = &corpus.synthetic {
            return Self::synthetic(options);
        }
        let (loader, repository) = match (&corpus.alias, &corpus.hf_repo) {
            (Some(alias), _) => {
                let repository = resolve_alias(alias)
                    .ok_or_else(|| Failure::Usage(format!("corpus alias `{alias}` is not a published corpus")))?;
                (alias.clone(), repository)
            }
            (None, Some(repository)) => ("weka_hf".to_string(), repository.trim().to_string()),
            (None, None) => {
                return Err(Failure::Usage("the plan names no corpus; set `corpus.alias` or `corpus.path`".into()));
            }
        };
        let mut source = Self::of_repository(&repository)?;
        let mut dataset = serde_json::json!({
            "source_type": "public_dataset",
            "loader": loader,
            "hf_dataset_name": repository,
            "hf_split": "train",
        });
        if let (Some(entries), Some(fields)) = (corpus.max_traces, dataset.as_object_mut()) {
            fields.insert("num_dataset_entries".into(), entries.into());
        }
        source.dataset = Some(dataset);
        Ok(source)
    }

    /// The corpus that TRACES on a command line mean.
    pub(crate) fn of_paths(traces: &[PathBuf]) -> Result<Self, Failure> {
        if let [only] = traces
            && let Some(text) = only.to_str()
        {
            if text == DEMO {
                return Self::demo();
            }
            if !only.exists()
                && let Some(repository) = resolve_alias(&text.replace('-', "_"))
            {
                return Self::of_repository(&repository);
            }
        }
        Ok(Self::local(traces.to_vec()))
    }

    /// A published corpus: from the local hub cache, else downloaded into it.
    pub(crate) fn of_repository(repository: &str) -> Result<Self, Failure> {
        // A download tells how far it is; commands that only look at traces have no log until then.
        logging::start("info", 0, None)?;
        let file = Hub::from_env().corpus(repository).map_err(Failure::of)?;
        tracing::info!("corpus {repository} at revision {}", file.revision);
        Ok(Self {
            paths: vec![file.path],
            name: repository.to_string(),
            revision: Some(file.revision),
            dataset: None,
            _unpacked: None,
        })
    }

    /// A generated corpus, written to a folder that is gone when the corpus has been read.
    fn synthetic(options: &serde_json::Map<String, serde_json::Value>) -> Result<Self, Failure> {
        let options: SynthOptions = serde_json::from_value(options.clone().into())
            .map_err(|error| Failure::Usage(format!("corpus.synthetic: {error}")))?;
        let folder =
            tempfile::tempdir().map_err(|error| Failure::Failed(format!("cannot make a temporary folder: {error}")))?;
        write_synthetic(&options, folder.path())?;
        Ok(Self {
            paths: vec![folder.path().to_path_buf()],
            name: format!("synthetic:{}", serde_json::to_string(&options).unwrap_or_default()),
            revision: None,
            dataset: None,
            _unpacked: Some(folder),
        })
    }

    fn demo() -> Result<Self, Failure> {
        let unpack = || -> std::io::Result<tempfile::TempDir> {
            let folder = tempfile::tempdir()?;
            for (name, text) in DEMO_TRACES {
                std::fs::write(folder.path().join(name), text)?;
            }
            Ok(folder)
        };
        let folder = unpack().map_err(|error| Failure::Failed(format!("cannot unpack the demo corpus: {error}")))?;
        Ok(Self {
            paths: vec![folder.path().to_path_buf()],
            name: DEMO.to_string(),
            revision: None,
            dataset: None,
            _unpacked: Some(folder),
        })
    }
}
