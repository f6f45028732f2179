//! Colours in light and dark. The reader's system chooses, unless the page's own switch says
//! otherwise; the switch is plain HTML (three radio buttons), so the file works where scripts are
//! not allowed, and on paper it is always light.

use core::fmt::Write;

/// Lanes that have a colour of their own; the next begin anew.
pub(super) const LANE_COLOURS: usize = 6;

/// Name, light and dark. The lanes are told apart with any colour vision: blue, vermilion, green,
/// purple, amber, grey-blue; each has a contrast of 4.5:1 or more with the paper, as numbers are
/// written in it.
const COLOURS: [(&str, &str, &str); 15] = [
    ("page", "#f6f7f9", "#101318"),
    ("paper", "#ffffff", "#181c23"),
    ("ink", "#171b22", "#eceff4"),
    ("muted", "#59626f", "#a3adba"),
    ("grid", "#e2e6eb", "#2b313b"),
    ("rule", "#d3d8df", "#353c48"),
    ("link", "#0b5cad", "#7db8f5"),
    ("warn", "#fff4d6", "#332a12"),
    ("warn-rule", "#b87f00", "#d9a634"),
    ("lane-0", "#2f6fb3", "#6cb0ee"),
    ("lane-1", "#c24e00", "#ff9149"),
    ("lane-2", "#0d7d60", "#3fc79f"),
    ("lane-3", "#a0488c", "#dd8fcb"),
    ("lane-4", "#8a6800", "#e0bd3f"),
    ("lane-5", "#5b6b82", "#9db0c9"),
];

/// Rules that do not depend on colours.
const RULES: &str = include_str!("style.css");

fn variables(dark: bool) -> String {
    let scheme = if dark { "dark" } else { "light" };
    COLOURS.iter().fold(format!("color-scheme:{scheme};"), |mut out, (name, light, night)| {
        let _ = write!(out, "--{name}:{};", if dark { night } else { light });
        out
    })
}

/// Classes that the charts use in place of colours.
fn chart_classes() -> String {
    let used = COLOURS
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| name.starts_with("lane-") || PAINTED.contains(name));
    used.fold(String::new(), |mut out, name| {
        let _ = writeln!(
            out,
            ".fill-{name}{{fill:var(--{name})}}.stroke-{name}{{stroke:var(--{name})}}"
        );
        out
    })
}

const PAINTED: [&str; 4] = ["ink", "muted", "grid", "paper"];

/// Red, green and blue of a name in light.
#[cfg(feature = "pictures")]
pub(super) fn light(name: &str) -> [u8; 3] {
    let hex = COLOURS
        .iter()
        .find(|(colour, ..)| *colour == name)
        .map_or("#000000", |(_, light, _)| *light);
    [1, 3, 5].map(|at| {
        hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0)
    })
}

/// The end of the first tag of an SVG file, and the style that its shapes need: light colours,
/// without variables, which few programs but browsers know.
pub(super) fn of_a_file() -> String {
    let light = |rules: String| {
        COLOURS
            .iter()
            .fold(rules, |rules, (name, light, _)| rules.replace(&format!("var(--{name})"), light))
    };
    format!(
        "><style>text{{font-family:sans-serif}}.hover{{fill:none}}\n{}</style>",
        light(chart_classes())
    )
}

/// The whole style sheet.
pub(super) fn style_sheet() -> String {
    let (light, dark) = (variables(false), variables(true));
    format!(
        ":root{{{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n\
         :root:has(#theme-light:checked){{{light}}}\n\
         :root:has(#theme-dark:checked){{{dark}}}\n\
         {RULES}\n{}@media print{{:root,:root:has(#theme-dark:checked){{{light}}}}}\n",
        chart_classes()
    )
}
