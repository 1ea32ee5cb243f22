//! The dashboard's picture, a pure function of what it shows.

use agentx_report::{Quantiles, ServerGlance, progress};
use agentx_types::Phase;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

use super::{Point, View};
use crate::progress::clock;

/// From this width on panels stand side by side.
const WIDE: u16 = 130;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let area = frame.area();
    let curves = if area.height >= 32 { 5 } else { 4 };
    let server = u16::from(view.server.is_some()) * 3;
    if area.width >= WIDE {
        let [head, top, middle, log] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(9),
            Constraint::Length(2 * curves),
            Constraint::Min(0),
        ])
        .areas(area);
        header(frame, head, view);
        let [left, right] = halves(top);
        let [counts, server] = Layout::vertical([Constraint::Min(0), Constraint::Length(server)]).areas(left);
        counters(frame, counts, view);
        server_panel(frame, server, view);
        percentiles(frame, right, view);
        let [upper, lower] = Layout::vertical([Constraint::Length(curves), Constraint::Length(curves)]).areas(middle);
        let ([a, b], [c, d]) = (halves(upper), halves(lower));
        for (area, curve) in [a, b, c, d].into_iter().zip(CURVES) {
            sparkline(frame, area, view, curve);
        }
        log_panel(frame, log, view);
        return;
    }
    let [head, counts, table, server, middle, log] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(server),
        Constraint::Length(4),
        Constraint::Min(0),
    ])
    .areas(area);
    header(frame, head, view);
    counters(frame, counts, view);
    percentiles(frame, table, view);
    server_panel(frame, server, view);
    let thirds = Layout::horizontal([Constraint::Fill(1); 3]).areas::<3>(middle);
    for (area, curve) in thirds.into_iter().zip(CURVES) {
        sparkline(frame, area, view, curve);
    }
    log_panel(frame, log, view);
}

fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area)
}

fn block(title: &str) -> Block<'_> {
    Block::bordered().border_style(Style::new().fg(Color::DarkGray)).title(title)
}

/// Phase, share done, elapsed and estimate.
fn header(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let (share, label) = stage(view);
    let title = format!(" agentx · {} · {} ", view.about.title, view.about.stamp);
    let gauge = Gauge::default()
        .block(block(&title))
        .gauge_style(Style::new().fg(Color::Blue).bg(Color::Reset))
        .ratio(share.clamp(0.0, 1.0))
        .label(Span::styled(label, Style::new().add_modifier(Modifier::BOLD)));
    frame.render_widget(gauge, area);
}

fn stage(view: &View<'_>) -> (f64, String) {
    let c = view.snapshot.counters;
    let elapsed = (view.now - view.snapshot.phase_start).as_seconds().max(0.0);
    let done = c.completed + c.cancelled;
    match (view.snapshot.phase, view.about.duration) {
        (None, _) => (0.0, "Starting".into()),
        (Some(Phase::Warmup), _) => match view.about.warmup.filter(|target| *target > 0) {
            Some(target) => {
                let share = (done as f64 / target as f64).min(1.0);
                let left = if share > 0.0 { clock(elapsed * (1.0 - share) / share) } else { "?".into() };
                (
                    share,
                    format!("Warmup {:.0}% · {done}/{target} · {} elapsed, {left} left", share * 100.0, clock(elapsed)),
                )
            }
            None => (0.0, format!("Warmup · {done} done · {} elapsed", clock(elapsed))),
        },
        (Some(Phase::Profiling), Some(total)) if elapsed < total => {
            let share = elapsed / total;
            let (now, left) = (clock(elapsed), clock(total - elapsed));
            (share, format!("Profiling {:.0}% · {now} elapsed, {left} left", share * 100.0))
        }
        (Some(Phase::Profiling), Some(total)) => {
            let share = if c.sent > 0 { done as f64 / c.sent as f64 } else { 1.0 };
            (share, format!("Draining · {} in flight · {} after the stop", c.in_flight, clock(elapsed - total)))
        }
        (Some(Phase::Profiling), None) => (0.0, format!("Profiling · {} elapsed", clock(elapsed))),
    }
}

/// Counters, rates, lanes.
fn counters(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let (s, c, b) = (view.snapshot, view.snapshot.counters, view.snapshot.branch_stats);
    let bad = |count: u64| Style::new().fg(if count > 0 { Color::Red } else { Color::Reset });
    let requests = Line::from(vec![
        Span::raw(format!("sent {}  done {}  ", c.sent, c.completed)),
        Span::styled(format!("errors {}", c.errors), bad(c.errors)),
        Span::raw("  "),
        Span::styled(format!("overflows {}", c.overflows), bad(c.overflows)),
        Span::raw(format!("  in flight {}  cancelled {}", c.in_flight, c.cancelled)),
    ]);
    let rate = |now: u64, before: u64, seconds: f64| {
        if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
    };
    let elapsed = (view.now - s.phase_start).as_seconds();
    let (since, ok, tokens_in, tokens_out) = view.history.window().map_or((elapsed, 0, 0, 0), |(at, before)| {
        ((view.now - *at).as_seconds(), before.ok, before.tokens_in, before.tokens_out)
    });
    let rates = Line::from(format!(
        "{:.2} req/s ({:.2} avg)  tok/s out {:.0} ({:.0} avg) in {:.0}",
        rate(s.ok, ok, since),
        rate(s.ok, 0, elapsed),
        rate(s.tokens_out, tokens_out, since),
        rate(s.tokens_out, 0, elapsed),
        rate(s.tokens_in, tokens_in, since),
    ));
    let lanes = Line::from(format!(
        "lanes {}  open trees {}  finished {}  helpers {} ({} done, {} failed)",
        view.about.lanes,
        c.plays_started.saturating_sub(c.plays_finished),
        c.plays_finished,
        b.children_spawned,
        b.children_completed,
        b.children_errored,
    ));
    let mut lines = vec![requests, rates, lanes];
    if s.cache_total > 0 {
        let hit = 100.0 * s.cache_hits as f64 / s.cache_total as f64;
        lines.push(Line::from(format!("theoretical prefix-cache hit {hit:.1}%")));
    }
    frame.render_widget(Paragraph::new(lines).block(block(" Requests and lanes ")), area);
}

/// Percentiles of the phase so far.
fn percentiles(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let s = view.snapshot;
    let row = |name: &str, digits: usize, quantiles: Option<Quantiles>| match quantiles {
        Some(q) => format!(
            "{name:<9}{:>10.digits$}{:>10.digits$}{:>10.digits$}{:>10.digits$}{:>10.digits$}",
            q.p50, q.p75, q.p90, q.p95, q.p99
        ),
        None => format!("{name:<9}{:>10}{:>10}{:>10}{:>10}{:>10}", "-", "-", "-", "-", "-"),
    };
    let head = format!("{:<9}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "p50", "p75", "p90", "p95", "p99");
    let lines = vec![
        Line::styled(head, Style::new().add_modifier(Modifier::DIM)),
        Line::from(row("TTFT ms", 1, s.ttft)),
        Line::from(row("ITL ms", 2, s.itl)),
        Line::from(row("E2E ms", 0, s.latency)),
        Line::from(row("ISL tok", 0, s.isl)),
        Line::from(row("OSL tok", 0, s.osl)),
    ];
    frame.render_widget(Paragraph::new(lines).block(block(" Percentiles ")), area);
}

/// What the servers say of themselves.
fn server_panel(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let Some((at, glance)) = view.server else { return };
    let before: Option<(&ServerGlance, f64)> =
        view.server_before.map(|(then, glance)| (glance, (*at - *then).as_seconds()));
    let row = progress::server_row(glance, before).unwrap_or_else(|| "no cache or queue figures yet".into());
    let row = row.trim_start_matches("srv").trim_start().to_owned();
    frame.render_widget(Paragraph::new(row).block(block(" Server ")), area);
}

/// A curve over the last minutes, one column a second.
#[derive(Clone, Copy)]
struct Curve {
    name: &'static str,
    unit: &'static str,
    color: Color,
    of: fn(&Point) -> Option<f64>,
}

const CURVES: [Curve; 4] = [
    Curve { name: "Throughput", unit: "tok/s", color: Color::Green, of: |point| Some(point.tokens_out) },
    Curve { name: "TTFT", unit: "ms", color: Color::Yellow, of: |point| point.ttft },
    Curve { name: "ITL", unit: "ms", color: Color::Magenta, of: |point| point.itl },
    Curve { name: "In flight", unit: "", color: Color::Cyan, of: |point| Some(point.in_flight as f64) },
];

/// Sparklines take whole numbers: thousandths are kept.
const PARTS: f64 = 1000.0;

fn sparkline(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, curve: Curve) {
    let columns = usize::from(area.width.saturating_sub(2));
    let points = &view.history.points;
    let values: Vec<f64> = points
        .iter()
        .skip(points.len().saturating_sub(columns))
        .map(|point| (curve.of)(point).unwrap_or(0.0))
        .collect();
    let title = match values.last() {
        Some(last) if *last < 10.0 && curve.unit == "ms" => format!(" {} {last:.2} {} ", curve.name, curve.unit),
        Some(last) if curve.unit.is_empty() => format!(" {} {last:.0} ", curve.name),
        Some(last) => format!(" {} {last:.0} {} ", curve.name, curve.unit),
        None => format!(" {} ", curve.name),
    };
    let data: Vec<u64> = values.iter().map(|value| (value.max(0.0) * PARTS) as u64).collect();
    let line = Sparkline::default().block(block(&title)).data(&data).style(Style::new().fg(curve.color));
    frame.render_widget(line, area);
}

/// The newest log lines that fit.
fn log_panel(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let rows = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> = view.log[view.log.len().saturating_sub(rows)..]
        .iter()
        .map(|line| {
            let color = match line.split_whitespace().nth(1) {
                Some("ERROR") => Color::Red,
                Some("WARN") => Color::Yellow,
                _ => Color::Reset,
            };
            Line::styled(line.as_str(), Style::new().fg(color))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block(" Log ")), area);
}

#[cfg(test)]
mod tests;
