//! The report in a browser: headless Chromium lays it out in both themes, for a wide window and for
//! a telephone, and prints it.

use crate::sample;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use weft_bench::report::{html, site};
use weft_bench::results::Results;
use weft_testing::programs;

const BROWSER: &str = "chromium-headless-shell";

/// Appended to a report: it says what the page looks like.
const PROBE: &str = include_str!("probe.html");

/// Widths of windows: a desk, a telephone, and the smallest telephone.
const WIDTHS: [u32; 3] = [1200, 390, 320];

/// Chromium's numbers for what the reader's system prefers, with the colour of paper that follows
/// from it.
const THEMES: [(u32, &str); 2] = [(0, "rgb(24, 28, 35)"), (1, "rgb(255, 255, 255)")];

/// Runs the browser in `folder` on the page there, and returns what it printed.
fn browse(folder: &Path, options: &[&str]) -> (String, String) {
    let output = programs::command(BROWSER)
        // Its sandbox needs rights that containers and root do not have.
        .args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(options)
        .arg(format!("file://{}", folder.join("page.html").display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).into()
}

/// What the probe found on a page in a window.
fn probe(folder: &Path, width: u32, theme: u32) -> Value {
    let window = format!("--window-size={width},900");
    let preferred = format!("--blink-settings=preferredColorScheme={theme}");
    let (page, log) = browse(folder, &[&window, &preferred, "--dump-dom"]);
    assert!(!log.contains(":CONSOLE"), "the console is empty: {log}");
    let found = page
        .split_once("<pre id=\"probe\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .expect("the probe ran")
        .0;
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).expect("the probe writes JSON")
}

/// Looks at a report in every window and theme, if there is a browser.
fn look(results: &Results, charts: bool) {
    look_at(&html(results), charts);
}

fn look_at(page: &str, charts: bool) {
    if !programs::have(&[BROWSER]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("page.html"), page.to_owned() + PROBE)
        .expect("the page is written");
    for width in WIDTHS {
        for (theme, paper) in THEMES {
            let found = probe(folder.path(), width, theme);
            assert_eq!(
                (&found["width"], &found["content"]),
                (&width.into(), &width.into()),
                "nothing reaches out of the window: {found}"
            );
            assert_eq!(found["paper"], paper, "the theme is followed: {found}");
            assert_ne!(found["ink"], found["paper"]);
            assert_eq!(found["shown"], found["drawn"], "no chart is empty: {found}");
            assert_eq!(
                found["shown"].as_u64().expect("a number") * 2,
                found["charts"].as_u64().expect("a number"),
                "one drawing of two"
            );
            assert_eq!(found["shown"] != 0, charts, "{found}");
            for nothing in ["outside", "requests", "errors"] {
                assert_eq!(found[nothing], Value::Array(Vec::new()), "{nothing}: {found}");
            }
        }
    }
}

#[test]
fn every_chart_is_seen_in_windows_of_any_width_and_both_themes() {
    look(&sample::study(), true);
}

#[test]
fn curves_series_and_published_relations_are_seen() {
    look(&sample::with_curves(), true);
}

#[test]
fn many_lanes_fit() {
    look(&sample::many_lanes(), true);
}

#[test]
fn names_of_others_do_not_become_parts_of_the_page() {
    look(&sample::hostile(), true);
}

#[test]
fn the_index_of_a_site_fits() {
    let studies = sample::all().into_iter().chain([sample::hostile()]).collect();
    let pages = site(studies).expect("they are JSON");
    look_at(&pages.last().expect("there is an index").content, false);
}

#[test]
fn it_is_printed_on_white() {
    if !programs::have(&[BROWSER]) {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("page.html"), html(&sample::with_curves()))
        .expect("the page is written");
    let pdf = folder.path().join("page.pdf");
    let to = format!("--print-to-pdf={}", pdf.display());
    // A reader whose screen is dark has white paper.
    let options = ["--blink-settings=preferredColorScheme=0", "--print-to-pdf-no-header", &to];
    browse(folder.path(), &options);
    let pdf = std::fs::read(pdf).expect("the browser printed");
    assert!(pdf.starts_with(b"%PDF-"), "a document");
    let pages = pdf.windows(12).filter(|bytes| bytes == b"/Type /Page\n").count();
    assert!((2..=20).contains(&pages), "{pages} pages");
}
