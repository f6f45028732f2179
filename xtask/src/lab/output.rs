//! The guest's output port: what the script wrote, then a mark with its exit status.

/// What the guest's init writes behind the script's output, followed by digits and a newline.
const MARK: &[u8] = b"\0lab-exit:";

/// Takes the port's bytes as they come and separates the output from the mark.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    held: Vec<u8>,
}

impl Splitter {
    /// Takes bytes; returns those that are output for certain, and the exit status once it is known.
    pub(super) fn push(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<u8>) {
        self.held.extend_from_slice(bytes);
        let certain = (0..self.held.len()).find(|at| may_be_mark(&self.held[*at..])).unwrap_or(self.held.len());
        let output = self.held.drain(..certain).collect();
        (output, self.status())
    }

    /// What is left when the guest has ended without a mark.
    pub(super) fn rest(self) -> Vec<u8> {
        self.held
    }

    fn status(&self) -> Option<u8> {
        let line = self.held.strip_prefix(MARK)?.split(|byte| *byte == b'\n').collect::<Vec<_>>();
        let [digits, _, ..] = line[..] else { return None };
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

fn may_be_mark(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK) || MARK.starts_with(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mark_at_every_cut() {
        let stream = b"out\0put\0lab-exot\n\0lab-exit:77\n";
        for cut in 0..stream.len() {
            let mut splitter = Splitter::default();
            let (mut output, early) = splitter.push(&stream[..cut]);
            assert_eq!(early, None, "at {cut}");
            let (more, status) = splitter.push(&stream[cut..]);
            output.extend(more);
            assert_eq!(output, b"out\0put\0lab-exot\n", "at {cut}");
            assert_eq!(status, Some(77), "at {cut}");
        }
    }

    #[test]
    fn gives_back_what_looked_like_a_mark() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"x\0lab"), (b"x".to_vec(), None));
        assert_eq!(splitter.rest(), b"\0lab");
    }
}
