//! A gate as JUnit's XML, which most CI systems read.

use super::check::{Check, CheckVerdict};
use super::outcome::{GateOutcome, RowName};
use core::fmt::Write;

/// The outcome as a document: a test case for each relation and count. Their names do not depend on
/// what was measured.
pub fn junit(outcome: &GateOutcome) -> String {
    let is_strict = outcome.rule.strict;
    let failing = |check: &&Check| {
        check.verdict == CheckVerdict::Worse || is_strict && check.verdict == CheckVerdict::Unclear
    };
    let failures = outcome.checks.iter().filter(failing).count()
        + if is_strict { outcome.missing.len() } else { 0 };
    let open = outcome.of(CheckVerdict::Unclear) + outcome.missing.len();
    let skipped = outcome.of(CheckVerdict::Shown) + if is_strict { 0 } else { open };
    let tests = outcome.checks.len() + outcome.missing.len();
    let counted =
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"");
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"weft study gate\" {counted}>\n  \
         <testsuite name=\"{}\" {counted}>\n",
        escaped(&outcome.suite)
    );
    for check in &outcome.checks {
        let name = RowName {
            lane: check.lane.clone(),
            workload: check.workload.clone(),
            what: Some(check.name()),
        };
        let words = format!("{}: {} was {}", check.change, check.after, check.before);
        let ending = match check.verdict {
            CheckVerdict::Worse => {
                Some(("failure", format!("worse by more than {}: {words}", outcome.lose())))
            }
            CheckVerdict::Unclear if is_strict => Some(("failure", format!("unclear: {words}"))),
            CheckVerdict::Unclear => Some(("skipped", format!("unclear: {words}"))),
            CheckVerdict::Shown => Some(("skipped", format!("not judged: {words}"))),
            CheckVerdict::Kept | CheckVerdict::Better => None,
        };
        case(&mut out, outcome, &name, ending);
    }
    for name in &outcome.missing {
        let element = if is_strict { "failure" } else { "skipped" };
        case(&mut out, outcome, name, Some((element, "only the baseline has it".to_owned())));
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

fn case(out: &mut String, outcome: &GateOutcome, name: &RowName, ending: Option<(&str, String)>) {
    // A dot parts packages and classes.
    let part = |text: &str| escaped(&text.replace('.', "_"));
    let class = format!("weft.study.{}.{}", part(&outcome.suite), part(&name.lane));
    let what = name.what.as_deref().map_or_else(String::new, |what| format!(" {what}"));
    let name = escaped(&format!("{}{what}", name.workload));
    let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\"");
    let _ = match ending {
        None => writeln!(out, "/>"),
        Some((element, words)) => {
            writeln!(out, "><{element} message=\"{}\"/></testcase>", escaped(&words))
        }
    };
}

/// A text in an attribute. XML 1.0 (§2.2) has no character for most control characters, however
/// they are written.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push(' ')
            }
            letter => out.push(letter),
        }
    }
    out
}
