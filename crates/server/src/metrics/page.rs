//! The pages of the metrics' port: the metrics, the server's health, and a page for people who open
//! the port with a browser.

use super::{exposition, health, plain};
use crate::limits::HOME_LINES_MAX;
use std::fmt::Write as _;
use weft_block::units::format_size;
use weft_endpoint::report::Report;

/// The metrics.
pub const METRICS: &str = "/metrics";
/// The health.
const HEALTH: &str = "/healthz";
/// The page for people.
const HOME: &str = "/";

/// All paths.
pub const PATHS: [&str; 3] = [METRICS, HEALTH, HOME];

/// The page that a client wants.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// The path.
    pub path: &'a str,
    /// It takes plain text and does not know OpenMetrics.
    pub plain: bool,
}

/// Gives what is at a path now; `None`: the server is ending.
pub type Pages = Box<dyn Fn(PageRequest<'_>) -> Option<Page> + Send + Sync>;

/// A response.
#[derive(Debug)]
pub struct Page {
    /// Code and reason.
    pub status: &'static str,
    /// Its media type, with parameters.
    pub media_type: &'static str,
    /// The text.
    pub body: String,
}

/// The page at a path, of a server in this state.
pub fn at(wanted: PageRequest<'_>, report: &Report) -> Option<Page> {
    match wanted.path {
        METRICS if wanted.plain => Some(Page {
            status: OK,
            media_type: "text/plain; version=0.0.4; charset=utf-8",
            body: plain::plain(&exposition::text(report)),
        }),
        METRICS => Some(Page {
            status: OK,
            media_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: exposition::text(report),
        }),
        HEALTH => Some(healthz(report)),
        HOME => {
            Some(Page { status: OK, media_type: "text/html; charset=utf-8", body: home(report) })
        }
        _ => None,
    }
}

const OK: &str = "200 OK";

fn healthz(report: &Report) -> Page {
    let problems = health::problems(report);
    let (status, body) = match problems.is_empty() {
        true => (OK, "ok\n".to_owned()),
        false => ("503 Service Unavailable", problems.join("\n") + "\n"),
    };
    Page { status, media_type: "text/plain; charset=utf-8", body }
}

fn home(report: &Report) -> String {
    let health = health::problems(report);
    let health = if health.is_empty() { "ok" } else { "not ok" };
    let listeners = report.listeners.iter().map(String::clone);
    let namespaces = report.subsystems.iter().flat_map(|subsystem| {
        subsystem.namespaces.iter().map(|it| {
            let size = format_size(it.blocks * u64::from(it.block_bytes));
            let (nqn, nsid, device) = (&subsystem.nqn, it.nsid, &it.device);
            format!("{nqn}, namespace {nsid}: {device}, {size}, {}", it.presence)
        })
    });
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head><meta charset=\"utf-8\"><title>weft</title></head>\n\
         <body>\n\
         <h1>weft {}</h1>\n\
         <p>weft serves disks to hosts by NVMe over Fabrics, iSCSI and NBD. This port is for its \
         monitoring.</p>\n\
         <ul>\n\
         <li><a href=\"{METRICS}\">{METRICS}</a>: metrics for Prometheus</li>\n\
         <li><a href=\"{HEALTH}\">{HEALTH}</a>: the server's health, now {health}</li>\n\
         </ul>\n\
         <h2>Listeners</h2>\n{}\
         <h2>Namespaces</h2>\n{}\
         </body>\n\
         </html>\n",
        escaped(&report.version),
        list(listeners),
        list(namespaces),
    )
}

/// A list, of which the first lines are shown.
fn list(lines: impl Iterator<Item = String>) -> String {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return "<p>None.</p>\n".to_owned();
    }
    let mut text = String::from("<ul>\n");
    for line in lines.by_ref().take(HOME_LINES_MAX) {
        // A string takes everything.
        let _ = writeln!(text, "<li>{}</li>", escaped(&line));
    }
    match lines.count() {
        0 => {}
        more => _ = writeln!(text, "<li>and {more} more; weft status shows all</li>"),
    }
    text + "</ul>\n"
}

/// Names come from who configures the server; none of them becomes a part of the page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_endpoint::report::{NamespaceReport, SubsystemReport};

    fn at(path: &str, report: &Report) -> Option<Page> {
        super::at(PageRequest { path, plain: false }, report)
    }

    #[test]
    fn the_page_links_to_what_is_there_and_shows_names_safely() {
        let namespace = NamespaceReport {
            nsid: 1,
            device: "file:/a&<b>".into(),
            presence: "away".into(),
            ..NamespaceReport::default()
        };
        let report = Report {
            version: "1.2".into(),
            listeners: vec!["nbd://127.0.0.1:1".into(); HOME_LINES_MAX + 2],
            subsystems: vec![SubsystemReport {
                nqn: "nqn.\"x\"".into(),
                namespaces: vec![namespace],
                ..SubsystemReport::default()
            }],
            ..Report::default()
        };
        let page = at(HOME, &report).unwrap();
        for part in [
            "<h1>weft 1.2</h1>",
            "href=\"/metrics\"",
            "href=\"/healthz\"",
            "now not ok",
            "nqn.&quot;x&quot;, namespace 1: file:/a&amp;&lt;b&gt;",
            "and 2 more",
        ] {
            assert!(page.body.contains(part), "{part} is not in\n{}", page.body);
        }
        for path in PATHS {
            assert!(at(path, &report).is_some(), "{path}");
        }
        let health = at(HEALTH, &report).unwrap();
        assert!(health.status.starts_with("503") && health.body.contains("is away"), "{health:?}");
        assert_eq!(at(HEALTH, &Report::default()).unwrap().body, "ok\n");
        assert!(at("/x", &report).is_none());
        let plain = super::at(PageRequest { path: METRICS, plain: true }, &report).unwrap();
        assert!(plain.media_type.starts_with("text/plain; version=0.0.4;"));
        assert!(plain.body.contains("# TYPE weft_cpu_seconds_total counter"), "{}", plain.body);
    }
}
