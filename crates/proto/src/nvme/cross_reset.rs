//! Cross-Controller Reset (Base 2.3 §5.4.3, from TP8028 "Rapid Path Failure Recovery"): a host asks
//! one controller of a subsystem to reset another one that it has lost, and learns when none of
//! that controller's commands can be executed.

use super::opcode::AdminOpcode;
use super::sqe::Sqe;
use super::types::{Cntlid, Nsid};

/// Names an instance of a controller: the fields of the command (CDW10, CDW12, CDW13), from
/// Identify Controller of the controller to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossControllerReset {
    /// ICID, Impacted Controller ID: its CNTLID. CDW10 bits 15:0.
    pub icid: Cntlid,
    /// CIU, Controller Instance Uniquifier: another value for each instance of a controller with
    /// this identifier. CDW10 bits 23:16.
    pub ciu: u8,
    /// CIRN, Controller Instance Random Number. CDW12 has its lower half, CDW13 its upper.
    pub cirn: u64,
}

impl CrossControllerReset {
    /// Completion dword 0 bit 0, Immediate Reset Successful (IRS): the reset is over. Without it
    /// the log page Cross-Controller Reset reports the end.
    pub const IMMEDIATE_RESET_SUCCESSFUL: u32 = 1;

    /// The command.
    pub fn encode(&self) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::CROSS_CONTROLLER_RESET.0, Nsid(0));
        sqe.set_dword(10, u32::from(self.icid.0) | u32::from(self.ciu) << 16);
        sqe.set_qword(12, self.cirn);
        sqe
    }

    /// Reads the fields of a command with this opcode.
    pub fn decode(sqe: &Sqe) -> Self {
        let dword10 = sqe.dword(10);
        Self { icid: Cntlid(dword10 as u16), ciu: (dword10 >> 16) as u8, cirn: sqe.qword(12) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_bytes() {
        let reset =
            CrossControllerReset { icid: Cntlid(0x0102), ciu: 3, cirn: 0x1122_3344_5566_7788 };
        let sqe = reset.encode();
        assert_eq!(sqe.0[..8], [0x38, 0x40, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            sqe.0[40..56],
            [2, 1, 3, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
        );
        assert_eq!(CrossControllerReset::decode(&sqe), reset);
    }
}
