//! The page as a document: everything is closed, nothing is loaded, and it can be read by anyone.

use crate::sample;
use weft_bench::report::html;
use weft_bench::results::Results;

/// A tag or a piece of text.
enum Token<'a> {
    Open { name: &'a str, attributes: &'a str },
    Close(&'a str),
    Text(&'a str),
}

/// Splits a document; attribute values are always quoted and hold no `>`, which
/// [`everything_is_closed_and_quoted`] relies on and the escaping of the writer grants.
fn tokens(document: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    for piece in document.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        out.push(match name.strip_prefix('/') {
            Some(name) => Token::Close(name),
            None => Token::Open { name, attributes },
        });
        if !text.trim().is_empty() {
            out.push(Token::Text(text));
        }
    }
    out
}

fn is_void(name: &str, attributes: &str) -> bool {
    matches!(name, "!DOCTYPE" | "meta" | "input" | "br") || attributes.ends_with('/')
}

/// Panics where a tag is closed that was not the last to be opened; gives how deep it went.
pub(super) fn check_nesting(document: &str) {
    let mut open = Vec::new();
    for token in tokens(document) {
        match token {
            Token::Open { name, attributes } if !is_void(name, attributes) => open.push(name),
            Token::Close(name) => {
                assert_eq!(open.pop(), Some(name), "closed out of turn, inside of {open:?}")
            }
            Token::Open { .. } | Token::Text(_) => (),
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

pub(super) fn texts(document: &str) -> Vec<&str> {
    let text = |token| match token {
        Token::Text(text) => Some(text.trim()),
        _ => None,
    };
    tokens(document).into_iter().filter_map(text).collect()
}

fn all_samples() -> Vec<Results> {
    let related = Results { relations: sample::relations(), ..sample::study() };
    sample::all().into_iter().chain([sample::hostile(), related]).collect()
}

#[test]
fn everything_is_closed_and_quoted() {
    for results in all_samples() {
        check_nesting(&html(&results));
    }
}

#[test]
fn it_loads_nothing() {
    for results in all_samples() {
        let page = html(&results).to_lowercase();
        for forbidden in [
            "http",
            "src=",
            "href=",
            "@import",
            "url(",
            "<script",
            "<link",
            "<img",
            "<object",
            "<iframe",
            "@font-face",
        ] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}

#[test]
fn it_follows_light_and_dark() {
    let page = html(&sample::study());
    for part in [
        "prefers-color-scheme:dark",
        "#theme-light:checked",
        "#theme-dark:checked",
        "id=\"theme-auto\" checked",
        "@media print",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let body = page.split_once("<body>").expect("there is a body").1;
    assert!(
        !body.contains("fill=\"#") && !body.contains("stroke=\"#"),
        "every colour comes from the style sheet"
    );
    assert!(body.contains("class=\"fill-lane-0\"") && body.contains("class=\"fill-lane-1\""));
}

#[test]
fn every_chart_can_be_read_without_eyes() {
    let page = html(&sample::study());
    let charts = page.matches("<svg ").count();
    assert_eq!(
        charts, 20,
        "three of relations, as those are of different magnitudes, three kinds in two block sizes, and latency, each wide and narrow"
    );
    assert_eq!(page.matches("role=\"img\" aria-labelledby=").count(), charts);
    assert_eq!(page.matches("<desc id=").count(), charts);
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is given once");
    assert_eq!(page.matches("<summary>Numbers of these charts</summary>").count(), 3);
}

#[test]
fn tables_are_rectangular() {
    for results in all_samples() {
        for table in
            html(&results).split("<tbody").skip(1).filter_map(|rest| rest.split("</tbody>").next())
        {
            let widths: Vec<usize> =
                table.split("<tr").skip(1).map(cells).filter(|cells| *cells > 1).collect();
            assert!(
                widths.iter().all(|width| width == widths.iter().max().unwrap_or(&0)),
                "{widths:?}"
            );
        }
    }
}

/// Data cells of a line; the name of a pattern spans several lines and does not count, one that
/// spans all columns is a heading.
fn cells(line: &str) -> usize {
    line.matches("<td").count()
}

#[test]
fn names_are_escaped() {
    let page = html(&sample::hostile());
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    assert!(!page.contains("alert('&')"));
}
