//! The parts by which a chart is understood by itself: its title, and the meaning of its colours,
//! in lines below it. The page has both around it.

use super::canvas::{HPos, LEFT, Label, Paint, Shape, VectorDrawing, text_width};
use super::drawing::{Chart, WIDE};
use crate::results::Results;

const LINE_HEIGHT: i32 = 18;

/// Width of a coloured patch, and of the gap behind it.
const PATCH: i32 = 14;
const GAP: i32 = 6;

/// The drawing of a chart with its key.
pub(super) fn with_key(chart: &dyn Chart, results: &Results) -> VectorDrawing {
    let mut drawing = chart.draw(WIDE);
    let words = chart.words();
    let is_used = |paint: Paint| drawing.shapes.iter().any(|shape| shape.paint() == paint);
    let lanes = results.lanes.iter().enumerate().map(|(at, lane)| (Paint::lane(at), lane));
    let lanes = lanes
        .filter(|(paint, _)| is_used(*paint))
        .map(|(paint, lane)| (Some(paint), format!("{}: {}", lane.name, lane.title)));
    let ink = words.ink.map(|ink| (Some(Paint::Ink), ink.to_owned()));
    let lines: Vec<(Option<Paint>, String)> =
        core::iter::once((None, words.title.clone())).chain(lanes).chain(ink).collect();
    for (paint, text) in lines {
        let (top, middle) = (drawing.height as i32, drawing.height as i32 + LINE_HEIGHT / 2);
        let mut left = LEFT;
        if let Some(paint) = paint {
            let corners = [(left, top + 4), (left + PATCH, top + LINE_HEIGHT - 4)];
            drawing.shapes.push(Shape::Bar { corners, paint, alpha: 1.0 });
            left += PATCH + GAP;
        }
        let text = fitted(&text, WIDE as i32 - left - LEFT);
        drawing.shapes.push(Shape::Words(Label {
            at: (left, middle),
            text,
            paint: Paint::Ink,
            side: HPos::Left,
        }));
        drawing.height += LINE_HEIGHT as u32;
    }
    drawing.height += GAP as u32;
    drawing
}

/// As much of a text as there is room for.
pub(super) fn fitted(text: &str, room: i32) -> String {
    if text_width(text) <= room {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while !short.is_empty() && text_width(&short) + text_width("…") > room {
        short.pop();
    }
    short.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_cut_where_its_room_ends() {
        assert_eq!(fitted("short", 100), "short");
        let cut = fitted(&"long ".repeat(100), 100);
        assert!(cut.ends_with("long…") || cut.ends_with('…'), "{cut}");
        assert!(text_width(&cut) <= 100);
    }
}
