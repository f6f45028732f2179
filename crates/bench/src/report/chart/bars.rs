//! Horizontal bars in groups: a name, under it a bar for each lane with its number behind it, and a
//! mark across them.

use super::canvas::{self, Axis, Canvas, HPos, Paint, VectorDrawing, text_width};
use super::drawing::{Chart, Words};

/// A chart.
pub(super) struct Bars {
    pub words: Words,
    /// Name and unit of the axis.
    pub axis: String,
    /// Formats a tick.
    pub write: fn(f64) -> String,
    /// Least end of the axis; it grows with the values.
    pub reach: f64,
    /// A line across all groups.
    pub reference: Option<f64>,
    pub groups: Vec<Cluster>,
}

/// The bars of a pattern.
pub(super) struct Cluster {
    pub name: String,
    /// A mark across the bars.
    pub mark: Option<f64>,
    pub bars: Vec<Bar>,
}

/// A bar.
pub(super) struct Bar {
    /// Its parts, from the left: how long, and how strong the colour is.
    pub parts: Vec<(f64, f64)>,
    pub paint: Paint,
    /// Lowest and highest of the rounds.
    pub whisker: Option<(f64, f64)>,
    /// The number behind it.
    pub text: String,
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().map(|(length, _)| length).sum()
    }

    /// Up to where something of it is drawn.
    fn end(&self) -> f64 {
        self.whisker.map_or(0.0, |(_, high)| high).max(self.length())
    }
}

const NAME_HEIGHT: i32 = 20;
const BAR_HEIGHT: i32 = 13;
const BAR_STEP: i32 = BAR_HEIGHT + 3;
const GAP: i32 = 10;

impl Cluster {
    fn height(&self) -> i32 {
        NAME_HEIGHT + BAR_STEP * self.bars.len() as i32 + GAP
    }
}

impl Bars {
    fn axis(&self) -> Axis {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let marks = self.groups.iter().filter_map(|group| group.mark);
        let high = bars()
            .map(Bar::end)
            .chain(marks)
            .filter(|value| value.is_finite())
            .fold(self.reach, f64::max);
        let text = bars().map(|bar| text_width(&bar.text)).max().unwrap_or(0);
        let high = if high > 0.0 { high } else { 1.0 };
        Axis {
            name: self.axis.clone(),
            range: (0.0, high),
            log: false,
            write: self.write,
            right: (text + 10) as u32,
        }
    }
}

impl Chart for Bars {
    fn words(&self) -> &Words {
        &self.words
    }

    fn draw(&self, width: u32) -> VectorDrawing {
        let height: i32 = self.groups.iter().map(Cluster::height).sum();
        canvas::draw(&self.axis(), width, height as u32, |canvas| {
            if let Some(reference) = self.reference {
                let x = canvas.x(reference);
                canvas.line((x, 0), (x, height), Paint::Ink, 2);
            }
            let mut top = 0;
            for group in &self.groups {
                draw_group(canvas, group, top);
                top += group.height();
            }
        })
    }
}

fn draw_group(canvas: &mut Canvas, group: &Cluster, top: i32) {
    name(canvas, &group.name, top);
    let first = top + NAME_HEIGHT;
    for (at, bar) in group.bars.iter().enumerate() {
        draw_bar(canvas, bar, first + BAR_STEP * at as i32);
    }
    if let Some(mark) = group.mark {
        let (x, bottom) = (canvas.x(mark), first + BAR_STEP * group.bars.len() as i32);
        canvas.bar((x - 3, first - 3), (x + 3, bottom), Paint::Paper, 1.0);
        canvas.bar((x - 1, first - 3), (x + 1, bottom), Paint::Ink, 1.0);
    }
    for (at, bar) in group.bars.iter().enumerate() {
        draw_number(canvas, bar, group.mark, first + BAR_STEP * at as i32);
    }
}

/// The name of a group, on a patch of paper so that the grid does not run through it.
pub(super) fn name(canvas: &mut Canvas, name: &str, top: i32) {
    let left = canvas.left();
    canvas.bar(
        (left, top + 2),
        (left + text_width(name), top + NAME_HEIGHT - 3),
        Paint::Paper,
        1.0,
    );
    canvas.text((left, top + 9), name, Paint::Ink, HPos::Left);
}

fn draw_bar(canvas: &mut Canvas, bar: &Bar, top: i32) {
    let mut from = 0.0;
    for (at, (length, alpha)) in bar.parts.iter().enumerate() {
        let gap = i32::from(at > 0);
        let (left, right) = (canvas.x(from) + gap, canvas.x(from + length));
        canvas.bar((left, top), (right, top + BAR_HEIGHT), Paint::Paper, 1.0);
        canvas.bar((left, top), (right, top + BAR_HEIGHT), bar.paint, *alpha);
        from += length;
    }
    if let Some((low, high)) = bar.whisker {
        let (left, right, middle) = (canvas.x(low), canvas.x(high), top + BAR_HEIGHT / 2);
        canvas.line((left, middle), (right, middle), Paint::Ink, 1);
        for end in [left, right] {
            canvas.line((end, middle - 3), (end, middle + 3), Paint::Ink, 1);
        }
    }
}

/// The number behind a bar, or behind the mark where the mark would run through it; in the bar's
/// colour, so that it is not taken for the number of the mark.
fn draw_number(canvas: &mut Canvas, bar: &Bar, mark: Option<f64>, top: i32) {
    let mut left = canvas.x(bar.end()) + 5;
    let width = text_width(&bar.text);
    if let Some(mark) = mark.map(|mark| canvas.x(mark))
        && (left - 6..left + width + 6).contains(&mark)
    {
        left = mark + 7;
    }
    canvas.bar((left - 2, top), (left + width, top + BAR_HEIGHT), Paint::Paper, 1.0);
    canvas.text((left, top + BAR_HEIGHT / 2 + 1), &bar.text, bar.paint, HPos::Left);
}
