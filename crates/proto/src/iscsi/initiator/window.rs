//! Sequence numbers of a session: the command window, and the last status seen (RFC 7143 §4.2.2).

use crate::iscsi::serial::Serial;

/// CmdSN, its window, and ExpStatSN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// CmdSN of the next command that is not immediate; immediate requests carry it too.
    pub cmd_sn: Serial,
    max_cmd_sn: Serial,
    pub exp_stat_sn: Serial,
}

impl Window {
    /// Before login: no command may be sent.
    pub fn new(first: Serial) -> Self {
        Self { cmd_sn: first, max_cmd_sn: first.previous(), exp_stat_sn: Serial(0) }
    }

    /// Returns whether the target takes another command.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.max_cmd_sn.precedes(self.cmd_sn)
    }

    /// ExpCmdSN and MaxCmdSN of a received PDU. Older ones, and those that contradict each other,
    /// say nothing (§4.2.2.1).
    #[inline]
    pub fn update(&mut self, exp_cmd_sn: Serial, max_cmd_sn: Serial) {
        if self.max_cmd_sn.precedes(max_cmd_sn) && !max_cmd_sn.precedes(exp_cmd_sn.previous()) {
            self.max_cmd_sn = max_cmd_sn;
        }
    }

    /// StatSN of a PDU that carries a status, which is acknowledged from now on.
    #[inline]
    pub fn status(&mut self, stat_sn: Serial) {
        if !stat_sn.precedes(self.exp_stat_sn) {
            self.exp_stat_sn = stat_sn.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_opens_and_never_closes_again() {
        let last = Serial(u32::MAX);
        let mut window = Window::new(last);
        assert!(!window.is_open());
        window.update(last, Serial(0));
        assert_eq!((window.is_open(), window.cmd_sn.take()), (true, last));
        assert_eq!(
            (window.is_open(), window.cmd_sn.take(), window.is_open()),
            (true, Serial(0), false)
        );
        window.update(last, last);
        assert!(!window.is_open());
        window.update(Serial(1), Serial(9));
        window.update(Serial(90), Serial(20));
        assert_eq!((window.is_open(), window.max_cmd_sn), (true, Serial(9)));
    }

    #[test]
    fn status_is_acknowledged_in_order() {
        let mut window = Window::new(Serial(1));
        window.exp_stat_sn = Serial(u32::MAX);
        window.status(Serial(u32::MAX));
        window.status(Serial(u32::MAX));
        assert_eq!(window.exp_stat_sn, Serial(0));
    }
}
