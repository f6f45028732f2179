//! The six types, and what each allows to whom (Base 2.1 §8.1.22.1, SPC-4 §5.12.1).

/// Type of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only the holder writes; all read.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Registrants write; all read.
    WriteExclusiveRegistrantsOnly,
    /// Registrants read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Registrants, who are all holders, write; all read.
    WriteExclusiveAllRegistrants,
    /// Registrants, who are all holders, read and write.
    ExclusiveAccessAllRegistrants,
}

/// Effect of a command on blocks, as far as reservations are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads or compares.
    Reads,
    /// It changes them or makes them durable.
    Writes,
}

/// Permitted access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermittedAccess {
    /// Read.
    pub read: bool,
    /// Write.
    pub write: bool,
}

impl PermittedAccess {
    /// Everything.
    pub const FULL: Self = Self { read: true, write: true };
    /// Reading.
    pub const READ: Self = Self { read: true, write: false };
    /// Nothing.
    pub const NONE: Self = Self { read: false, write: false };

    /// Returns whether it covers this.
    #[inline]
    pub const fn allows(self, effect: Effect) -> bool {
        match effect {
            Effect::Reads => self.read,
            Effect::Writes => self.write,
        }
    }
}

/// A type with its codes.
struct Row {
    kind: Kind,
    nvme: u8,
    scsi: u8,
    /// Access of those who neither hold it nor share it.
    others: PermittedAccess,
    /// Registrants share it.
    shared: bool,
    /// All registrants are holders.
    all_hold: bool,
}

/// RTYPE (Base 2.1, "Reservation Type Encoding") and TYPE (SPC-4 §6.15.3.3).
const ROWS: [Row; 6] = [
    row(Kind::WriteExclusive, 1, 0x1, PermittedAccess::READ, false, false),
    row(Kind::ExclusiveAccess, 2, 0x3, PermittedAccess::NONE, false, false),
    row(Kind::WriteExclusiveRegistrantsOnly, 3, 0x5, PermittedAccess::READ, true, false),
    row(Kind::ExclusiveAccessRegistrantsOnly, 4, 0x6, PermittedAccess::NONE, true, false),
    row(Kind::WriteExclusiveAllRegistrants, 5, 0x7, PermittedAccess::READ, true, true),
    row(Kind::ExclusiveAccessAllRegistrants, 6, 0x8, PermittedAccess::NONE, true, true),
];

const fn row(
    kind: Kind,
    nvme: u8,
    scsi: u8,
    others: PermittedAccess,
    shared: bool,
    all_hold: bool,
) -> Row {
    Row { kind, nvme, scsi, others, shared, all_hold }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [ROWS[0].kind, ROWS[1].kind, ROWS[2].kind, ROWS[3].kind, ROWS[4].kind, ROWS[5].kind];

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The type of an NVMe code (RTYPE).
    pub fn of_nvme(code: u8) -> Option<Self> {
        ROWS.iter().find(|row| row.nvme == code).map(|row| row.kind)
    }

    /// The type of a SCSI code.
    pub fn of_scsi(code: u8) -> Option<Self> {
        ROWS.iter().find(|row| row.scsi == code).map(|row| row.kind)
    }

    /// Its code in NVMe.
    pub fn nvme(self) -> u8 {
        self.row().nvme
    }

    /// Its code in SCSI.
    pub fn scsi(self) -> u8 {
        self.row().scsi
    }

    /// Returns whether all who are registered have access: the types "registrants only" and "all
    /// registrants".
    pub fn is_shared(self) -> bool {
        self.row().shared
    }

    /// Returns whether all who are registered are holders.
    pub fn all_hold(self) -> bool {
        self.row().all_hold
    }

    /// Returns the access of those who neither hold it nor share it.
    pub fn others(self) -> PermittedAccess {
        self.row().others
    }
}
