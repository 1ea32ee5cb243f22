//! Names of the files in an output folder (`results.md` §1.2).

/// The file names of one run, with or without a prefix of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNames {
    prefix: Option<String>,
}

impl FileNames {
    /// Name of the journal, whatever the prefix.
    pub const JOURNAL: &'static str = "agentx_journal.jsonl";
    /// Name of the event log, whatever the prefix.
    pub const EVENTS: &'static str = "events.jsonl";
    /// Name of the resolved plan, whatever the prefix.
    pub const LOCK: &'static str = "plan.lock.json";
    /// Name of the scrapes' log, whatever the prefix.
    pub const SCRAPES: &'static str = "agentx_scrapes.jsonl";
    /// Name of the generated texts, whatever the prefix.
    pub const OUTPUTS: &'static str = "outputs.json";
    /// Name of the page, whatever the prefix.
    pub const PAGE: &'static str = "report.html";
    /// Name of the marker of a finished export, whatever the prefix.
    pub const READY: &'static str = ".aiperf_results_ready.json";

    /// Names with `prefix`, as the plan holds it: without an ending; an empty prefix is none.
    pub fn new(prefix: Option<&str>) -> Self {
        Self { prefix: prefix.filter(|prefix| !prefix.is_empty()).map(str::to_owned) }
    }

    fn with(&self, prefixed: &str, plain: &str) -> String {
        self.prefix.as_ref().map_or_else(|| plain.to_owned(), |prefix| format!("{prefix}{prefixed}"))
    }

    /// The summary.
    pub fn summary_json(&self) -> String {
        self.with(".json", "profile_export_aiperf.json")
    }

    /// The summary as a table.
    pub fn summary_csv(&self) -> String {
        self.with(".csv", "profile_export_aiperf.csv")
    }

    /// One line a record.
    pub fn records(&self) -> String {
        self.with(".jsonl", "profile_export.jsonl")
    }

    /// The tables at the end of the run.
    pub fn console(&self) -> String {
        self.with("_console.txt", "profile_export_console.txt")
    }

    /// Time slices, JSON.
    pub fn timeslices_json(&self) -> String {
        self.with("_timeslices.json", "profile_export_aiperf_timeslices.json")
    }

    /// Time slices, CSV.
    pub fn timeslices_csv(&self) -> String {
        self.with("_timeslices.csv", "profile_export_aiperf_timeslices.csv")
    }

    /// Server metrics, JSON.
    pub fn server_metrics_json(&self) -> String {
        self.with("_server_metrics.json", "server_metrics_export.json")
    }

    /// Bodies and answers, one line a request.
    pub fn raw(&self) -> String {
        self.with("_raw.jsonl", "profile_export_raw.jsonl")
    }

    /// Server metrics, one line a scrape.
    pub fn server_metrics_jsonl(&self) -> String {
        self.with("_server_metrics.jsonl", "server_metrics_export.jsonl")
    }

    /// Server metrics, CSV.
    pub fn server_metrics_csv(&self) -> String {
        self.with("_server_metrics.csv", "server_metrics_export.csv")
    }
}

#[cfg(test)]
mod tests {
    use super::FileNames;

    #[test]
    fn a_prefix_replaces_the_usual_stem() {
        let table = [
            (None, "profile_export_aiperf.json", "profile_export.jsonl"),
            (Some(""), "profile_export_aiperf.json", "profile_export.jsonl"),
            (Some("foo"), "foo.json", "foo.jsonl"),
        ];
        for (prefix, summary, records) in table {
            let names = FileNames::new(prefix);
            assert_eq!((names.summary_json(), names.records()), (summary.into(), records.into()), "{prefix:?}");
        }
    }
}
