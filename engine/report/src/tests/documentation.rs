//! `docs/results.md` holds the table of metrics as the registry has it. Run with `AGENTX_REGENERATE=1` to write it.

use std::path::Path;

use crate::metrics::metric_reference;

const BEGIN: &str = "<!-- metrics: generated -->\n";
const END: &str = "<!-- metrics: end -->\n";

#[test]
fn the_table_of_metrics_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (there, tail) = rest.split_once(END).unwrap();
    let table = metric_reference();
    if std::env::var_os("AGENTX_REGENERATE").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    assert!(there == table, "docs/results.md is stale: run the test with AGENTX_REGENERATE=1");
}
