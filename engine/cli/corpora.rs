//! `agentx corpus`: the published corpora.

use std::fmt::Write as _;

use agentx_corpus::Hub;
use agentx_plan::{published_corpora, resolve_alias};

use crate::CommandResult;
use crate::failure::Failure;
use crate::{logging, out};

/// `agentx corpus list`: alias, repository, and the revision in the local hub cache.
pub(crate) fn list() -> CommandResult {
    let hub = Hub::from_env();
    let rows: Vec<(String, String, String)> = published_corpora()
        .into_iter()
        .map(|(alias, repository)| {
            let cached = hub.cached_corpus(&repository).map_or_else(|| "-".to_string(), |file| file.revision);
            (alias, repository, cached)
        })
        .collect();
    let width = |column: fn(&(String, String, String)) -> &str| rows.iter().map(|row| column(row).len()).max();
    let (alias, repository) = (width(|row| &row.0).unwrap_or(0), width(|row| &row.1).unwrap_or(0));
    let mut text = format!("{:<alias$}  {:<repository$}  in the cache\n", "alias", "repository");
    for row in &rows {
        // Writing to a string cannot fail.
        writeln!(text, "{:<alias$}  {:<repository$}  {}", row.0, row.1, row.2).unwrap_or_default();
    }
    out::print(&text)?;
    Ok(0)
}

/// `agentx corpus fetch`: downloads a corpus, or its newest revision, and says where it is.
pub(crate) fn fetch(name: &str) -> CommandResult {
    logging::start("info", 0, None)?;
    let by_alias = resolve_alias(&name.replace('-', "_"));
    let repository = by_alias.or_else(|| name.contains('/').then(|| name.trim().to_owned())).ok_or_else(|| {
        Failure::Usage(format!(
            "`{name}` is no published corpus; `agentx corpus list` shows them, and OWNER/NAME names any dataset of the hub"
        ))
    })?;
    let file = Hub::from_env().fetch_corpus(&repository).map_err(Failure::of)?;
    tracing::info!("{repository} is at revision {}", file.revision);
    out::print(&file.path.display().to_string())?;
    Ok(0)
}
