use super::super::registers::*;

const ON: u32 = Configuration::ENABLE | Configuration::NVM_ENTRY_SIZES;

fn set(registers: &mut Registers, cc: u32) -> Result<Change, Fault> {
    noted(registers, cc).0
}

/// The result, and what was noted.
fn noted(registers: &mut Registers, cc: u32) -> (Result<Change, Fault>, Vec<Deviation>) {
    let mut deviations = Deviations::default();
    let property = Property { offset: PropertyOffset::CC, bytes: 4, value: u64::from(cc) };
    (registers.write(property, &mut deviations), deviations.iter().collect())
}

fn status(registers: &Registers) -> u64 {
    registers.read(Property { offset: PropertyOffset::CSTS, bytes: 4, value: 0 }).unwrap()
}

fn enabled() -> Registers {
    let mut registers = Registers::new(ControllerKind::Io, 128);
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    registers
}

#[test]
fn enable_and_reset() {
    let mut registers = Registers::new(ControllerKind::Io, 128);
    assert_eq!((status(&registers), registers.operational()), (0, false));
    // Linux writes the sizes first, then EN.
    assert_eq!(set(&mut registers, Configuration::NVM_ENTRY_SIZES), Ok(Change::None));
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    assert!(registers.operational() && registers.accepts_queues());
    assert_eq!(status(&registers), 1);

    assert_eq!(
        set(&mut registers, Configuration::NVM_ENTRY_SIZES),
        Ok(Change::Quiesce { flush: false, reset: true })
    );
    assert_eq!((status(&registers), registers.operational()), (1, false));
    assert_eq!(set(&mut registers, ON).unwrap_err().status, Status::COMMAND_SEQUENCE_ERROR);
    registers.quiesced();
    assert_eq!(status(&registers), 0);
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
}

#[test]
fn shutdown_and_start_again() {
    let mut registers = enabled();
    let quiesce = Ok(Change::Quiesce { flush: true, reset: false });
    assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL), quiesce);
    assert_eq!((status(&registers), registers.operational()), (0x5, false));
    assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_ABRUPT), Ok(Change::None));
    registers.quiesced();
    assert_eq!(status(&registers), 0x9);
    // After a shutdown a reset is needed, which clears the status.
    assert_eq!(set(&mut registers, 0), Ok(Change::Quiesce { flush: false, reset: true }));
    registers.quiesced();
    assert_eq!(status(&registers), 0);
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
}

#[test]
fn a_discovery_controller_that_is_shut_down_has_nothing_to_flush() {
    let mut registers = Registers::new(ControllerKind::Discovery, 128);
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    let quiesce = Ok(Change::Quiesce { flush: false, reset: false });
    assert_eq!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL), quiesce);
}

#[test]
fn shutdown_while_disabled_ends_with_the_next_enable() {
    let mut registers = Registers::new(ControllerKind::Discovery, 128);
    let quiesce = Ok(Change::Quiesce { flush: false, reset: false });
    assert_eq!(set(&mut registers, Configuration::SHUTDOWN_NORMAL), quiesce);
    registers.quiesced();
    assert_eq!(status(&registers), 0x8);
    assert!(set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).is_err());
    assert_eq!(set(&mut registers, ON), Ok(Change::Enabled));
    assert_eq!((status(&registers), registers.accepts_queues()), (1, false));
}

#[test]
fn shutdown_together_with_reset_and_one_after_the_other() {
    let mut registers = enabled();
    let both = Ok(Change::Quiesce { flush: true, reset: true });
    assert_eq!(set(&mut registers, Configuration::SHUTDOWN_NORMAL), both);
    assert_eq!(status(&registers), 0x5);
    registers.quiesced();
    assert_eq!(status(&registers), 0x8);

    let mut registers = enabled();
    set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).unwrap();
    set(&mut registers, 0).unwrap();
    registers.quiesced();
    assert_eq!(status(&registers), 0x5, "the second stop is not done yet");
    registers.quiesced();
    assert_eq!(status(&registers), 0);
}

#[test]
fn values_that_are_refused_change_nothing() {
    let mut registers = Registers::new(ControllerKind::Io, 128);
    for bad in [
        ON | Configuration::ADMIN_ONLY,
        ON | 1 << 4,
        ON | 1 << 7,
        ON | 1 << 11,
        ON | 3 << 14,
        ON | Configuration::SHUTDOWN_NORMAL,
    ] {
        assert_eq!(set(&mut registers, bad).unwrap_err().status, Status::INVALID_FIELD, "{bad:#x}");
        assert_eq!(status(&registers), 0);
    }
    // Reserved bits and CRIME are not stored.
    assert_eq!(set(&mut registers, ON | 1 << 24 | 0xe), Ok(Change::Enabled));
    let cc = registers.read(Property { offset: PropertyOffset::CC, bytes: 4, value: 0 });
    assert_eq!(cc, Ok(u64::from(ON)));
    assert_eq!(set(&mut registers, ON | 1 << 11).unwrap_err().status, Status::INVALID_FIELD);
    assert_eq!(set(&mut registers, Configuration::ENABLE), Ok(Change::None));
    assert!(!registers.accepts_queues(), "entry sizes are wrong");
}

#[test]
fn all_command_sets_can_be_selected() {
    for kind in [ControllerKind::Io, ControllerKind::Discovery] {
        let mut registers = Registers::new(kind, 128);
        assert_eq!(registers.cap.has(Capabilities::COMMAND_SETS), kind == ControllerKind::Io);
        let expected = if kind == ControllerKind::Io {
            vec![]
        } else {
            vec![Deviation::CommandSetsNotOffered]
        };
        let done = noted(&mut registers, ON | Configuration::ALL_COMMAND_SETS);
        assert_eq!(done, (Ok(Change::Enabled), expected));
        assert_eq!(registers.accepts_queues(), kind == ControllerKind::Io);
    }
}

/// Neither nvmet nor SPDK looks at CC.CSS once the controller is enabled: a host may shut it
/// down by a CC of its own making.
#[test]
fn command_sets_stay_as_they_were_enabled() {
    let mut registers = Registers::new(ControllerKind::Io, 128);
    set(&mut registers, ON | Configuration::ALL_COMMAND_SETS).unwrap();
    assert_eq!(noted(&mut registers, ON), (Ok(Change::None), vec![Deviation::CommandSetsChanged]));
    assert!(registers.accepts_queues());
    let cc = registers.read(Property { offset: PropertyOffset::CC, bytes: 4, value: 0 });
    assert_eq!(cc, Ok(u64::from(ON | Configuration::ALL_COMMAND_SETS)));
    let shutdown = set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL);
    assert_eq!(shutdown, Ok(Change::Quiesce { flush: true, reset: false }));
    for fixed in [ON | 1 << 7, ON | 1 << 11] {
        assert_eq!(
            set(&mut registers, fixed).unwrap_err().status,
            Status::INVALID_FIELD,
            "{fixed:#x}"
        );
    }
}

/// nvmet clears CC in a shutdown, so that the next write with EN starts the controller; SPDK
/// leaves it enabled.
#[test]
fn a_controller_starts_again_after_a_shutdown_without_a_reset() {
    let mut registers = enabled();
    set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL).unwrap();
    assert_eq!(noted(&mut registers, ON), (Ok(Change::None), vec![]), "it is not done yet");
    assert!(!registers.operational());
    registers.quiesced();
    assert_eq!((status(&registers), registers.operational()), (0x9, false));
    assert_eq!(
        noted(&mut registers, ON),
        (Ok(Change::Enabled), vec![Deviation::StartWithoutReset])
    );
    assert_eq!(
        (status(&registers), registers.operational(), registers.accepts_queues()),
        (1, true, true)
    );
    let again = set(&mut registers, ON | Configuration::SHUTDOWN_NORMAL);
    assert_eq!(again, Ok(Change::Quiesce { flush: true, reset: false }));
}

#[test]
fn access_by_size_and_offset() {
    let mut registers = Registers::new(ControllerKind::Io, 128);
    let read = |registers: &Registers, offset: u32, bytes: u8| {
        registers.read(Property { offset: PropertyOffset(offset), bytes, value: 0 }).ok()
    };
    let cap = 1 << 59 | 1 << 43 | 1 << 37 | 60 << 24 | 1 << 16 | 127;
    assert_eq!(read(&registers, 0, 8), Some(cap));
    assert_eq!(read(&registers, 8, 4), Some(0x0002_0000));
    assert_eq!(read(&registers, 0x68, 4), Some(60));
    for (offset, bytes) in [
        (0, 4),
        (4, 4),
        (8, 8),
        (0x14, 8),
        (0x14, 0),
        (0x20, 4),
        (0x24, 4),
        (0x1000, 4),
        (u32::MAX, 4),
    ] {
        assert_eq!(read(&registers, offset, bytes), None, "{offset:#x} {bytes}");
    }
    for offset in [0, 8, 0x1c, 0x20, 0x68] {
        let property = Property { offset: PropertyOffset(offset), bytes: 4, value: 1 };
        let written = registers.write(property, &mut Deviations::default());
        assert_eq!(written.unwrap_err().status, Status::INVALID_FIELD);
    }
}
