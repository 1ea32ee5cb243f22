//! Published corpora by name (`corpus.md` §1).

/// Alias (without `_256k`) → repository (without `-256k`), and whether there is a `_256k` twin.
const CORPORA: [(&str, &str, bool); 9] = [
    ("semianalysis_cc_traces_weka", "semianalysisai/cc-traces-weka-no-subagents-051826", false),
    ("semianalysis_cc_traces_weka_no_subagents", "semianalysisai/cc-traces-weka-no-subagents-051826", false),
    ("semianalysis_cc_traces_weka_with_subagents", "semianalysisai/cc-traces-weka-062126", true),
    ("semianalysis_cc_traces_weka_with_subagents_060226", "semianalysisai/cc-traces-weka-with-subagents-060226", true),
    ("semianalysis_cc_traces_weka_with_subagents_060526", "semianalysisai/cc-traces-weka-with-subagents-060526", true),
    ("semianalysis_cc_traces_weka_with_subagents_060826", "semianalysisai/cc-traces-weka-with-subagents-060826", true),
    ("semianalysis_cc_traces_weka_061326", "semianalysisai/cc-traces-weka-061326", true),
    ("semianalysis_cc_traces_weka_061526", "semianalysisai/cc-traces-weka-061526", true),
    ("semianalysis_cc_traces_weka_062126", "semianalysisai/cc-traces-weka-062126", true),
];

/// The alias that names the newest drop whatever it is.
const ROLLING: &str = "semianalysis_cc_traces_weka_with_subagents";

/// The dated alias it stands for today.
const ROLLING_TODAY: &str = "semianalysis_cc_traces_weka_062126";

/// The repository an alias stands for; `-` and `_` are the same.
pub fn resolve(alias: &str) -> Option<String> {
    let (base, long) = alias.strip_suffix("_256k").map_or((alias, false), |base| (base, true));
    let (_, repository, twin) = CORPORA.iter().find(|(name, ..)| *name == base)?;
    match (long, twin) {
        (false, _) => Some((*repository).to_owned()),
        (true, true) => Some(format!("{repository}-256k")),
        (true, false) => None,
    }
}

/// Every alias and its repository, the `_256k` twins included.
pub fn published() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (alias, repository, twin) in CORPORA {
        all.push((alias.to_owned(), repository.to_owned()));
        if twin {
            all.push((format!("{alias}_256k"), format!("{repository}-256k")));
        }
    }
    all
}

/// Whether an alias is published at all.
pub(crate) fn is_known(alias: &str) -> bool {
    resolve(alias).is_some()
}

/// For a rolling alias: the dated one that pins what it stands for today.
pub(crate) fn rolling(alias: &str) -> Option<String> {
    let (base, suffix) = alias.strip_suffix("_256k").map_or((alias, ""), |base| (base, "_256k"));
    (base == ROLLING).then(|| format!("{ROLLING_TODAY}{suffix}"))
}

/// The published alias most like this one.
pub(crate) fn nearest(alias: &str) -> Option<String> {
    let names = CORPORA
        .iter()
        .flat_map(|(name, _, twin)| std::iter::once((*name).to_owned()).chain(twin.then(|| format!("{name}_256k"))));
    names
        .map(|name| (strsim::levenshtein(&name, alias), name))
        .filter(|(distance, _)| *distance <= 8)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
