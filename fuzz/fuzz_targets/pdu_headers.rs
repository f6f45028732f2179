//! Headers of PDUs in both directions: what was understood is written down the same way again.

use weft_proto::nvme_tcp::pdu::{
    CommonHeader, DataTransfer, IcReq, IcResp, decode_capsule_cmd, decode_capsule_resp,
    encode_capsule_cmd, encode_capsule_resp,
};

pub fn run(bytes: [u8; 128]) {
    let Some(common) = bytes.first_chunk() else { return };
    let common = CommonHeader::decode(common);
    assert_eq!(common.encode(), bytes[..8]);
    let _ = format!("{common:?} {:?}", common.pdu_type.header_bytes());

    let request = IcReq::decode(&bytes);
    assert_eq!(IcReq::decode(&request.encode()), request);
    let response = IcResp::decode(&bytes);
    assert_eq!(IcResp::decode(&response.encode()), response);
    if let Some(header) = bytes.first_chunk() {
        let transfer = DataTransfer::decode(header);
        assert_eq!(DataTransfer::decode(&transfer.encode(common)), transfer);
    }
    if let Some(header) = bytes.first_chunk() {
        let sqe = decode_capsule_cmd(header);
        assert_eq!(encode_capsule_cmd(common, &sqe), *header);
        let _ = format!("{sqe:?}");
    }
    if let Some(header) = bytes.first_chunk() {
        let cqe = decode_capsule_resp(header);
        assert_eq!(decode_capsule_resp(&encode_capsule_resp(common, &cqe)), cqe);
    }
}
