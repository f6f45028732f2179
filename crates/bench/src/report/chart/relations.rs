//! Relations around the value where both lanes are equal: a point with its 95 % interval, on a bar
//! that begins there.

use super::canvas::{self, Axis, Canvas, HPos, LEFT, Paint, VectorDrawing, text_width};
use super::drawing::{Chart, WIDE, Words};
use super::key::fitted;
use crate::relation::Scale;
use crate::report::shown::ShownRelation;
use crate::report::units::tick;
use crate::results::{Quantity, Results};

/// A chart.
pub(super) struct Relations {
    words: Words,
    scale: Scale,
    lines: Vec<Line>,
}

/// A relation, in the unit of the axis.
struct Line {
    what: String,
    who: String,
    number: String,
    value: f64,
    interval: Option<(f64, f64)>,
    paint: Paint,
}

const TEXT_HEIGHT: i32 = 17;
const TRACK_HEIGHT: i32 = 20;
const BAR_HALF: i32 = 5;
const GAP: i32 = 10;

/// How strong the bar is beneath its point and interval.
const BAR_ALPHA: f64 = 0.35;

/// Relations whose bars differ in length by more than this have axes of their own.
const MAGNITUDE: f64 = 10.0;

/// Differences and ratios have axes of their own, and so have relations of other magnitudes.
pub(super) fn charts(shown: &[ShownRelation<'_>], results: &Results) -> Vec<Relations> {
    let of = |scale: Scale| {
        let is =
            |it: &&ShownRelation<'_>| (it.quantity == Quantity::Rate) == (scale == Scale::Ratio);
        let mut groups: Vec<Vec<&ShownRelation<'_>>> = Vec::new();
        for one in shown.iter().filter(is) {
            let fits = |group: &&mut Vec<&ShownRelation<'_>>| {
                let (least, most) = group.iter().chain([&one]).fold((f64::MAX, 0.0), |ends, it| {
                    let size = magnitude(scale, it);
                    (size.min(ends.0), size.max(ends.1))
                });
                most <= least * MAGNITUDE
            };
            match groups.iter_mut().find(fits) {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        groups.into_iter().enumerate().map(move |(at, group)| chart((scale, at), &group, results))
    };
    of(Scale::Difference).chain(of(Scale::Ratio)).collect()
}

/// The length of a bar with its interval.
fn magnitude(scale: Scale, shown: &ShownRelation<'_>) -> f64 {
    let (low, high) = shown.estimate.map_or((shown.value, shown.value), |it| it.interval());
    (low - scale.neutral()).abs().max((high - scale.neutral()).abs())
}

/// The chart of a scale with this number.
fn chart(
    (scale, at): (Scale, usize),
    shown: &[&ShownRelation<'_>],
    results: &Results,
) -> Relations {
    let (id, title) = match scale {
        Scale::Difference => ("added", "Added to each operation; 0 means no difference"),
        Scale::Ratio => ("rates", "Ratio of the rates; 1 is equally fast"),
    };
    let sentences: Vec<String> = shown.iter().map(|it| it.sentence(results) + ".").collect();
    Relations {
        words: Words {
            id: match at {
                0 => format!("relations-{id}"),
                _ => format!("relations-{id}-{}", at + 1),
            },
            title: title.to_owned(),
            desc: sentences.join(" "),
            ink: Some("95 % interval"),
        },
        scale,
        lines: shown.iter().map(|it| line(scale, it)).collect(),
    }
}

fn line(scale: Scale, shown: &ShownRelation<'_>) -> Line {
    let unit = if scale == Scale::Ratio { 1.0 } else { 1e3 };
    Line {
        what: shown.what(),
        who: shown.who(),
        number: shown.number(),
        value: shown.value / unit,
        interval: shown.estimate.map(|estimate| (estimate.low / unit, estimate.high / unit)),
        paint: Paint::lane(shown.at),
    }
}

impl Relations {
    fn axis(&self, right: i32) -> Axis {
        let neutral = self.scale.neutral();
        let ends = self.lines.iter().flat_map(|line| {
            let (low, high) = line.interval.unwrap_or((line.value, line.value));
            [low, high, line.value]
        });
        let (low, high) =
            ends.fold((neutral, neutral), |(low, high), value| (low.min(value), high.max(value)));
        let room = ((high - low) * 0.08).max(0.02);
        let name = if self.scale == Scale::Ratio {
            "times as many operations per second"
        } else {
            "µs more; left of 0 less"
        };
        let range = (if low < neutral { low - room } else { neutral - room / 2.0 }, high + room);
        Axis { name: name.to_owned(), range, log: false, write: tick, right: right as u32 }
    }
}

impl Chart for Relations {
    fn words(&self) -> &Words {
        &self.words
    }

    /// The numbers stand behind the bars where there is room, else above them.
    fn draw(&self, width: u32) -> VectorDrawing {
        let behind = width >= WIDE;
        let widest = self.lines.iter().map(|line| text_width(&line.number)).max().unwrap_or(0);
        let texts: Vec<Vec<(String, Paint)>> =
            self.lines.iter().map(|line| line.texts(width as i32 - 2 * LEFT, behind)).collect();
        let step =
            |texts: &Vec<(String, Paint)>| TEXT_HEIGHT * texts.len() as i32 + TRACK_HEIGHT + GAP;
        let height: i32 = texts.iter().map(step).sum();
        let axis = self.axis(if behind { widest + 10 } else { 10 });
        canvas::draw(&axis, width, height as u32, |canvas| {
            let mut top = 0;
            for (line, texts) in self.lines.iter().zip(&texts) {
                let from = top + TEXT_HEIGHT * texts.len() as i32;
                track(canvas, line, self.scale.neutral(), from);
                for (at, (text, paint)) in texts.iter().enumerate() {
                    patch(canvas, text, (LEFT, top + TEXT_HEIGHT * at as i32 + 9), *paint);
                }
                if behind {
                    patch(
                        canvas,
                        &line.number,
                        (width as i32 - widest, from + TRACK_HEIGHT / 2),
                        Paint::Ink,
                    );
                }
                top += step(texts);
            }
        })
    }
}

impl Line {
    /// What stands above the bar, in lines that fit.
    fn texts(&self, room: i32, behind: bool) -> Vec<(String, Paint)> {
        let of = |text: &str, paint: Paint| {
            wrapped(text, room).into_iter().map(move |line| (line, paint)).collect::<Vec<_>>()
        };
        let number = if behind { Vec::new() } else { of(&self.number, Paint::Ink) };
        [of(&self.what, Paint::Ink), of(&self.who, Paint::Muted), number].concat()
    }
}

/// A text as lines that fit, except for a single word that is too long: it is cut.
fn wrapped(text: &str, room: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines
            .last_mut()
            .filter(|line| text_width(line) + text_width(word) + text_width(" ") <= room)
        {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| fitted(&line, room)).collect()
}

/// A text on a patch of paper, so that the grid does not run through it.
fn patch(canvas: &mut Canvas, text: &str, (x, y): (i32, i32), paint: Paint) {
    canvas.bar((x - 2, y - 8), (x + text_width(text), y + 8), Paint::Paper, 1.0);
    canvas.text((x, y), text, paint, HPos::Left);
}

fn track(canvas: &mut Canvas, line: &Line, neutral: f64, top: i32) {
    let middle = top + TRACK_HEIGHT / 2;
    let (from, to) = (canvas.x(neutral), canvas.x(line.value));
    canvas.bar(
        (from.min(to), middle - BAR_HALF),
        (from.max(to), middle + BAR_HALF),
        line.paint,
        BAR_ALPHA,
    );
    canvas.line((from, top), (from, top + TRACK_HEIGHT), Paint::Ink, 2);
    if let Some((low, high)) = line.interval {
        let (low, high) = (canvas.x(low), canvas.x(high));
        canvas.line((low, middle), (high, middle), Paint::Ink, 2);
        for end in [low, high] {
            canvas.line((end, middle - 6), (end, middle + 6), Paint::Ink, 2);
        }
    }
    canvas.dot((to, middle), 4, line.paint);
}
