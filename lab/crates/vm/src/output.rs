//! The guest's output port: what a case wrote, then a mark with its exit status.

/// What the guest's init writes behind a case's output: a mark, a number, a space, another number,
/// a newline.
const MARKS: [(&[u8], Kind); 6] = [
    (b"\0lab-ready:", Kind::Ready),
    (b"\0lab-end:", Kind::End),
    (b"\0lab-kill:", Kind::Kill),
    (b"\0lab-move:", Kind::Move),
    (b"\0lab-count:", Kind::Count),
    (b"\0lab-off:", Kind::Off),
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ready,
    End,
    Kill,
    Move,
    Count,
    Off,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The guest waits for a case to run; or could not be prepared for that.
    Ready(bool),
    /// A case has ended.
    End {
        /// Its exit status.
        status: u8,
        /// It left something in the kernel that another case might meet.
        changed: bool,
    },
    /// A case wants the program killed that serves the guest's disk, and started again.
    Kill,
    /// A case wants the guest moved to another qemu while it runs.
    Move,
    /// A case waits for a line with what was done outside; and wants system calls counted until it
    /// asks again, or not.
    Count {
        /// True if they are to be counted.
        calls: bool,
    },
    /// The guest goes off next, and is to be booted again; or something kept it from that in order.
    Off(bool),
}

/// Takes the port's bytes as they come and separates the output from the marks.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    held: Vec<u8>,
}

impl Splitter {
    /// Takes bytes; returns those that are output for certain, and what a mark behind them says.
    /// After a mark there may be more: ask again, with nothing, until there is no mark.
    pub(super) fn push(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<Mark>) {
        self.held.extend_from_slice(bytes);
        let certain = (0..self.held.len())
            .find(|at| may_be_mark(&self.held[*at..]))
            .unwrap_or(self.held.len());
        let output = self.held.drain(..certain).collect();
        (output, self.mark())
    }

    /// What is left when the guest has ended without a mark.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn mark(&mut self) -> Option<Mark> {
        let (text, kind) =
            MARKS.iter().find_map(|(text, kind)| Some((self.held.strip_prefix(*text)?, *kind)))?;
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let (number, other) = std::str::from_utf8(&text[..end]).ok()?.split_once(' ')?;
        let mark = match kind {
            Kind::Ready => Mark::Ready(number == "0"),
            Kind::Kill => Mark::Kill,
            Kind::Move => Mark::Move,
            Kind::Count => Mark::Count { calls: number != "0" },
            Kind::Off => Mark::Off(number == "0"),
            Kind::End => Mark::End { status: number.parse().ok()?, changed: other != "0" },
        };
        let used = self.held.len() - text.len() + end + 1;
        self.held.drain(..used);
        Some(mark)
    }
}

fn may_be_mark(bytes: &[u8]) -> bool {
    MARKS.iter().any(|(mark, _)| bytes.starts_with(mark) || mark.starts_with(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"\0lab-ready:0 0\nout\0put\0lab-ent\n\0lab-kill:1 0\n\0lab-move:1 0\n\0lab-count:1 0\n\0lab-off:0 0\n\0lab-end:77 0\nmore\0lab-end:1 1\n";

    #[test]
    fn finds_the_marks_at_every_cut() {
        for cut in 0..=STREAM.len() {
            let mut splitter = Splitter::default();
            let (mut output, mut marks) = (Vec::new(), Vec::new());
            for bytes in [&STREAM[..cut], &STREAM[cut..]] {
                let mut pushed = splitter.push(bytes);
                while let (more, Some(mark)) = pushed {
                    output.extend(more);
                    marks.push((output.len(), mark));
                    pushed = splitter.push(&[]);
                }
                output.extend(pushed.0);
            }
            assert_eq!(output, b"out\0put\0lab-ent\nmore", "at {cut}");
            let end = |status, changed| Mark::End { status, changed };
            assert_eq!(
                marks,
                [
                    (0, Mark::Ready(true)),
                    (16, Mark::Kill),
                    (16, Mark::Move),
                    (16, Mark::Count { calls: true }),
                    (16, Mark::Off(true)),
                    (16, end(77, false)),
                    (20, end(1, true))
                ],
                "at {cut}"
            );
        }
    }

    #[test]
    fn gives_back_what_looked_like_a_mark() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"x\0lab"), (b"x".to_vec(), None));
        assert_eq!(splitter.rest(), b"\0lab");
    }
}
