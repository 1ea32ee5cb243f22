//! Text tables without colour codes.

/// How a cell's text is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A titled table; a cell may hold several lines.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) header: Vec<String>,
    pub(crate) align: Vec<Align>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The table, centred in `width` columns.
    pub(crate) fn render(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                let cells = std::iter::once(&self.header).chain(&self.rows).filter_map(|row| row.get(column));
                cells.flat_map(|cell| cell.lines()).map(|line| line.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let table_width = widths.iter().map(|width| width + 3).sum::<usize>() + 1;
        let indent = " ".repeat(width.saturating_sub(table_width) / 2);
        let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        let rule = format!("+{}+", dashes.join("+"));
        let mut out = centred(&self.title, width);
        let mut push = |line: &str| {
            out.push_str(indent.as_str());
            out.push_str(line);
            out.push('\n');
        };
        push(&rule);
        self.row(&self.header, &widths).iter().for_each(|line| push(line));
        push(&rule);
        for row in &self.rows {
            self.row(row, &widths).iter().for_each(|line| push(line));
        }
        push(&rule);
        out
    }

    fn row(&self, cells: &[String], widths: &[usize]) -> Vec<String> {
        let height = cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1);
        let line = |number: usize| {
            let parts = widths.iter().zip(&self.align).enumerate().map(|(column, (width, align))| {
                let text = cells.get(column).and_then(|cell| cell.lines().nth(number)).unwrap_or("");
                match align {
                    Align::Left => format!("| {text:<width$} "),
                    Align::Right => format!("| {text:>width$} "),
                }
            });
            parts.collect::<String>() + "|"
        };
        (0..height).map(line).collect()
    }
}

fn centred(text: &str, width: usize) -> String {
    let indent = width.saturating_sub(text.chars().count()) / 2;
    format!("{}{text}\n", " ".repeat(indent))
}

/// A box with a title around lines, which are wrapped at words.
pub(crate) fn panel(title: &str, lines: &[String], width: usize) -> String {
    let inner = width.saturating_sub(4).max(20);
    let top = format!("+- {title} {}+", "-".repeat((inner + 2).saturating_sub(title.chars().count() + 3)));
    let bottom = format!("+{}+", "-".repeat(inner + 2));
    let body = lines.iter().flat_map(|line| wrap(line, inner)).map(|line| format!("| {line:<inner$} |"));
    std::iter::once(top).chain(body).chain([bottom, String::new()]).collect::<Vec<_>>().join("\n")
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// `value` with two decimals and thousands separators; `N/A` when absent or not finite.
pub(crate) fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "N/A".into() };
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value.abs() < 0.005 { "" } else { sign };
    format!("{sign}{grouped}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_two_decimals_and_separators() {
        let table = [
            (Some(0.0), "0.00"),
            (Some(-0.001), "0.00"),
            (Some(999.999), "1,000.00"),
            (Some(1_234_567.891), "1,234,567.89"),
            (Some(-1234.5), "-1,234.50"),
            (Some(f64::INFINITY), "N/A"),
            (None, "N/A"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }
}
