//! The metrics in the older text format of Prometheus (version 0.0.4), for clients that do not know
//! OpenMetrics, such as `promtool check metrics`.
//!
//! What differs: the names of counters have `_total` in their descriptions, too, and there are no
//! units and no end.

use std::collections::HashSet;

/// The same metrics, of which `text` has the OpenMetrics.
pub fn plain(text: &str) -> String {
    let counters: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match described(line).filter(|(_, name, _)| counters.contains(name)) {
            Some((kind, name, rest)) => plain.push_str(&format!("{kind}{name}_total {rest}")),
            None => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

/// The parts of a line that describes a metric: its beginning, the name, and the rest.
fn described(line: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = line.split_at_checked("# HELP ".len())?;
    let (name, rest) = rest.split_once(' ')?;
    matches!(kind, "# HELP " | "# TYPE ").then_some((kind, name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_their_full_names() {
        let text = "# HELP a_bytes Data.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
            a_bytes_total{x=\"# TYPE \"} 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n# EOF\n";
        assert_eq!(
            plain(text),
            "# HELP a_bytes_total Data.\n# TYPE a_bytes_total counter\n\
             a_bytes_total{x=\"# TYPE \"} 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n"
        );
    }
}
