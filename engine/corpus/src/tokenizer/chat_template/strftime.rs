//! `strftime_now` at one fixed instant: Friday, 26 July 2024, 00:00:00 UTC.

/// `format` as Python's `strftime` writes that instant; what it does not know stays as it is.
pub(super) fn at_the_fixed_date(format: &str) -> String {
    let mut out = String::with_capacity(format.len() + 8);
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut code = rest.next();
        let padded = code != Some('-');
        if !padded {
            code = rest.next();
        }
        let text = match code {
            Some('Y') => "2024",
            Some('y') => "24",
            Some('m') if padded => "07",
            Some('m') => "7",
            Some('d' | 'e') => "26",
            Some('B') => "July",
            Some('b' | 'h') => "Jul",
            Some('A') => "Friday",
            Some('a') => "Fri",
            Some('j') => "208",
            Some('u' | 'w') => "5",
            Some('H' | 'M' | 'S') if padded => "00",
            Some('H' | 'M' | 'S') => "0",
            Some('I') => "12",
            Some('p') => "AM",
            Some('f') => "000000",
            Some('F') => super::ChatTemplate::DATE,
            Some('T' | 'X') => "00:00:00",
            Some('D' | 'x') => "07/26/24",
            Some('c') => "Fri Jul 26 00:00:00 2024",
            Some('Z') => "UTC",
            Some('z') => "+0000",
            Some('%') => "%",
            other => {
                out.push('%');
                out.extend(other);
                continue;
            }
        };
        out.push_str(text);
    }
    out
}
