use super::*;
use crate::iscsi::serial::Serial;
use crate::scsi::lun::unit_number;

#[test]
fn a_command_stands_where_the_figure_says() {
    let mut cdb = [0; 16];
    cdb[0] = 0x2a;
    let flags = CommandFlags::FINAL.with(CommandFlags::WRITE).attribute(TaskAttribute::SIMPLE);
    let command = ScsiCommand {
        immediate: true,
        flags,
        lun: Lun::single_level(3),
        task: TaskTag(0x0102_0304),
        expected_bytes: 512,
        cmd_sn: Serial(7),
        exp_stat_sn: Serial(9),
        cdb,
    };
    let bhs = command.encode(0x1234);
    assert_eq!(bhs[..8], [0x41, 0xa1, 0, 0, 0, 0, 0x12, 0x34]);
    assert_eq!(bhs[8..16], [0, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bhs[16..24], [1, 2, 3, 4, 0, 0, 2, 0]);
    assert_eq!(bhs[24..33], [0, 0, 0, 7, 0, 0, 0, 9, 0x2a]);
    assert_eq!(ScsiCommand::decode(&bhs), command);
    let head = Head::decode(&bhs);
    assert_eq!((head.opcode, head.immediate, head.last), (Opcode::SCSI_COMMAND, true, true));
    assert_eq!((head.data_bytes, head.ahs_bytes, head.task), (0x1234, 0, command.task));
}

#[test]
fn a_login_response_stands_where_the_figure_says() {
    let response = LoginResponse {
        flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
        isid: Isid::random([1, 2, 3], 0x0405),
        tsih: 0x0607,
        task: TaskTag(1),
        status: LoginStatus::NOT_FOUND,
        ..LoginResponse::default()
    };
    let bhs = response.encode(0);
    assert_eq!(bhs[..4], [0x23, 0x87, 0, 0]);
    assert_eq!(bhs[8..16], [0x80, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(bhs[36..38], [2, 3]);
    assert_eq!(LoginResponse::decode(&bhs), response);
    assert_eq!(
        (response.flags.current(), response.flags.next()),
        (LoginStage::OPERATIONAL, LoginStage::FULL_FEATURE)
    );
    assert!(response.flags.is_transit() && !response.flags.is_continued());
}

#[test]
fn fields_that_share_a_byte_keep_apart() {
    let request = TaskRequest {
        immediate: true,
        function: TaskFunction::LOGICAL_UNIT_RESET,
        ..TaskRequest::default()
    };
    let bhs = request.encode(0);
    assert_eq!(bhs[..2], [0x42, 0x85]);
    assert_eq!(TaskRequest::decode(&bhs), request);
    let response = ScsiResponse {
        flags: ResponseFlags::UNDERFLOW,
        status: 2,
        residual: 5,
        ..ScsiResponse::default()
    };
    let bhs = response.encode(0);
    assert_eq!((bhs[1], bhs[3], bhs[47]), (0x82, 2, 5));
    assert_eq!(ScsiResponse::decode(&bhs), response);
}

#[test]
fn every_byte_survives() {
    // What is read of arbitrary bytes is what is written of it, bar reserved bits.
    let bytes: [u8; BHS_BYTES] = core::array::from_fn(|n| (n * 37 + 11) as u8);
    assert_eq!(DataIn::decode(&DataIn::decode(&bytes).encode(1)), DataIn::decode(&bytes));
    assert_eq!(DataOut::decode(&DataOut::decode(&bytes).encode(1)), DataOut::decode(&bytes));
    assert_eq!(R2t::decode(&R2t::decode(&bytes).encode(0)), R2t::decode(&bytes));
    assert_eq!(
        AsyncMessage::decode(&AsyncMessage::decode(&bytes).encode(0)),
        AsyncMessage::decode(&bytes)
    );
    assert_eq!(Reject::decode(&Reject::decode(&bytes).encode(48)), Reject::decode(&bytes));
    assert_eq!(
        LogoutRequest::decode(&LogoutRequest::decode(&bytes).encode(0)),
        LogoutRequest::decode(&bytes)
    );
    assert_eq!(Snack::decode(&Snack::decode(&bytes).encode(0)), Snack::decode(&bytes));
    assert_eq!(NopOut::decode(&NopOut::decode(&bytes).encode(9)), NopOut::decode(&bytes));
    assert_eq!(
        TextRequest::decode(&TextRequest::decode(&bytes).encode(9)),
        TextRequest::decode(&bytes)
    );
}

#[test]
fn luns_of_one_level() {
    for number in [0, 1, 255, 256, 0x3fff] {
        assert_eq!(
            unit_number(Lun::single_level(number).0).map(|number| number as u16),
            Some(number)
        );
    }
    assert_eq!(unit_number(0x0001_0001_0000_0000), None, "a second level");
    assert_eq!(unit_number(0xc101_0000_0000_0000), None, "a well-known logical unit");
    assert_eq!(unit_number(0x0101_0000_0000_0000), None, "another bus");
}

#[test]
fn padding_goes_to_a_multiple_of_four() {
    assert_eq!([0, 1, 2, 3, 4, 5].map(padding), [0, 3, 2, 1, 0, 3]);
}
