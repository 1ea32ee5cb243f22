//! Statistics of one series over a phase.

use serde_json::{Map, Number, Value};

use super::prometheus::FamilyKind;
use super::series::{Growth, Series};
use crate::metrics::{PERCENTILES, percentile};

/// A phase as the scrapes saw it; Unix epoch ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The phase itself.
    pub(super) start: i64,
    pub(super) end: i64,
    /// The scrapes at its borders: growth is counted between them.
    pub(super) base: i64,
    pub(super) last: i64,
    /// The URL's first scrape of all.
    pub(super) first_scrape: i64,
}

impl Span {
    /// Border scrapes of a phase: the nearest to its start, and the first after its end or else the last.
    pub(super) fn new(start_ns: i64, end_ns: i64, fetches: &[i64]) -> Option<Self> {
        let base = fetches.iter().copied().min_by_key(|at| (at - start_ns).abs())?;
        let last = fetches.iter().copied().find(|at| *at >= end_ns).or(fetches.last().copied())?;
        let first_scrape = *fetches.first()?;
        (last > base).then_some(Self { start: start_ns, end: end_ns, base, last, first_scrape })
    }

    fn seconds(self) -> f64 {
        (self.last - self.base) as f64 / 1e9
    }

    fn slices(self, length_ns: i64) -> impl Iterator<Item = (i64, i64)> {
        let end = self.end;
        let starts = (0..).map(move |index| self.start + index * length_ns).take_while(move |start| *start < end);
        starts.map(move |start| (start, (start + length_ns).min(end)))
    }
}

/// Adds a number; what is not finite is left out.
fn put(map: &mut Map<String, Value>, key: &str, value: f64) {
    if let Some(number) = Number::from_f64(value) {
        map.insert(key.into(), Value::Number(number));
    }
}

fn whole(map: &mut Map<String, Value>, key: &str, value: f64) {
    map.insert(key.into(), Value::from(value.round().max(0.0) as u64));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample deviation (one degree of freedom less); 0 for one value.
fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

fn extremes(map: &mut Map<String, Value>, prefix: &str, values: &[f64]) {
    put(map, &format!("{prefix}avg"), mean(values));
    put(map, &format!("{prefix}min"), values.iter().copied().fold(f64::INFINITY, f64::min));
    put(map, &format!("{prefix}max"), values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
}

/// The `stats` of a series, its `buckets` and its `timeslices`; nothing when it has no value in the phase.
pub(super) fn describe(
    series: &Series,
    kind: FamilyKind,
    span: Span,
    slice_ns: Option<i64>,
) -> Option<Map<String, Value>> {
    let mut stats = Map::new();
    let mut out = Map::new();
    let growth = series.growth(span.base, span.last, span.first_scrape);
    let slices: Vec<(i64, i64)> = slice_ns.map(|length| span.slices(length).collect()).unwrap_or_default();
    let timeslices: Vec<Map<String, Value>> =
        slices.iter().map(|(start, end)| slice(series, kind, span, *start, *end)).collect();
    match kind {
        FamilyKind::Gauge => {
            let mut values = series.values(span.start, span.end + 1);
            if values.is_empty() {
                return None;
            }
            extremes(&mut stats, "", &values);
            put(&mut stats, "std", deviation(&values));
            values.sort_unstable_by(f64::total_cmp);
            for q in PERCENTILES {
                let value = percentile(values.len(), |index| values[index], f64::from(q));
                put(&mut stats, &format!("p{q}"), value.unwrap_or(f64::NAN));
            }
        }
        FamilyKind::Counter => {
            put(&mut stats, "total", growth.value);
            put(&mut stats, "rate", growth.value / span.seconds());
            let rates: Vec<f64> = timeslices.iter().filter_map(|slice| slice.get("rate")?.as_f64()).collect();
            if !rates.is_empty() {
                extremes(&mut stats, "rate_", &rates);
                put(&mut stats, "rate_std", deviation(&rates));
            }
        }
        FamilyKind::Histogram => {
            histogram(&mut stats, &growth);
            put(&mut stats, "count_rate", growth.count / span.seconds());
            put(&mut stats, "sum_rate", growth.sum / span.seconds());
            for q in PERCENTILES {
                let estimate = quantile(&growth.buckets, f64::from(q) / 100.0);
                put(&mut stats, &format!("p{q}_estimate"), estimate.unwrap_or(f64::NAN));
            }
        }
    }
    out.insert("stats".into(), Value::Object(stats));
    if kind == FamilyKind::Histogram && !growth.buckets.is_empty() {
        out.insert("buckets".into(), buckets(&growth));
    }
    if slice_ns.is_some() {
        out.insert("timeslices".into(), timeslices.into_iter().map(Value::Object).collect());
    }
    Some(out)
}

fn slice(series: &Series, kind: FamilyKind, span: Span, start: i64, end: i64) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("start_ns".into(), start.into());
    map.insert("end_ns".into(), end.into());
    match kind {
        FamilyKind::Gauge => {
            let values = series.values(start, end);
            if !values.is_empty() {
                extremes(&mut map, "", &values);
            }
        }
        FamilyKind::Counter => {
            let growth = series.growth(start, end, span.first_scrape);
            put(&mut map, "total", growth.value);
            put(&mut map, "rate", growth.value * 1e9 / (end - start) as f64);
        }
        FamilyKind::Histogram => {
            let growth = series.growth(start, end, span.first_scrape);
            histogram(&mut map, &growth);
            map.insert("buckets".into(), buckets(&growth));
        }
    }
    map
}

fn histogram(map: &mut Map<String, Value>, growth: &Growth) {
    whole(map, "count", growth.count);
    put(map, "sum", growth.sum);
    put(map, "avg", growth.sum / growth.count);
}

fn buckets(growth: &Growth) -> Value {
    let mut map = Map::new();
    for (bound, count) in &growth.buckets {
        whole(&mut map, bound, *count);
    }
    Value::Object(map)
}

/// Linear interpolation inside the bucket that holds the quantile; the last bucket has no upper end, so it gives its lower
/// one.
fn quantile(buckets: &[(String, f64)], q: f64) -> Option<f64> {
    let mut bounds: Vec<(f64, f64)> =
        buckets.iter().filter_map(|(bound, count)| Some((bound.parse().ok()?, *count))).collect();
    bounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total = bounds.last()?.1;
    if total <= 0.0 {
        return None;
    }
    let rank = q * total;
    let index = bounds.iter().position(|(_, count)| *count >= rank)?;
    let (upper, count) = bounds[index];
    let (lower, below) = index.checked_sub(1).map_or((0.0_f64.min(upper), 0.0), |previous| bounds[previous]);
    if upper.is_infinite() || count <= below {
        return Some(lower);
    }
    Some(lower + (upper - lower) * (rank - below) / (count - below))
}
