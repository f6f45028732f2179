//! `rbd` and fio's engine for images read what weft wrote, and the other way round.

use super::image::rig;
use weft_testing::ceph::CephCluster;
use weft_testing::programs;

/// fio's engine `rbd` on an image, with these further options; it succeeds.
fn fio(cluster: &CephCluster, image: &str, options: &[&str]) {
    let name = image.trim_start_matches("rbd/");
    let output = programs::command("fio")
        .args([
            "--name=job",
            "--ioengine=rbd",
            "--clientname=admin",
            "--pool=rbd",
            &format!("--rbdname={name}"),
            "--thread",
        ])
        .args(["--bs=4k", "--iodepth=16", "--size=4M"])
        .args(options)
        .env("CEPH_CONF", cluster.conf())
        .current_dir(cluster.dir())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("verify"), "fio {options:?}: {out}{err}");
}

#[test]
fn the_tool_of_ceph_reads_and_writes_the_same() {
    let Some(cluster) = CephCluster::shared() else { return };
    let image = cluster.image("tool", "16M");
    let rig = rig(&cluster.url(&image), 2);
    let data: Vec<u8> =
        (0..1u32 << 18).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    // Over the end of the first object.
    rig.write(0, 8192 - 1024, &data);
    let exported =
        cluster.command("rbd", &["export", "--no-progress", &image, "-"]).output().unwrap();
    let at = (8192 - 1024) * 512;
    assert!(exported.status.success() && exported.stdout.len() == 16 << 20);
    assert!(
        exported.stdout[at..at + data.len()] == data
            && exported.stdout[..at].iter().all(|byte| *byte == 0)
    );
    rig.end();

    let file = cluster.dir().join("to-import");
    std::fs::write(&file, &data).unwrap();
    cluster.run("rbd", &["import", "--no-progress", &file.display().to_string(), "rbd/imported"]);
    let rig = super::image::rig(&cluster.url("rbd/imported"), 1);
    assert!(rig.read(0, 0, 2048) == data);
    rig.end();
}

#[test]
fn fio_reads_and_writes_the_same() {
    let Some(cluster) = CephCluster::shared() else { return };
    if !programs::have(&["fio"]) {
        return;
    }
    let image = cluster.image("fio", "16M");
    fio(
        cluster,
        &image,
        &["--rw=randwrite", "--verify=pattern", "--verify_pattern=0x5a6b7c8d", "--do_verify=0"],
    );
    let rig = rig(&cluster.url(&image), 1);
    let written = [0x5a, 0x6b, 0x7c, 0x8d].repeat(1 << 20);
    let read: Vec<u8> = (0..4).flat_map(|n| rig.read(0, n * 2048, 2048)).collect();
    assert!(read == written);
    for n in 0..4 {
        rig.write(0, n * 2048, &[0x33; 1 << 20]);
    }
    fio(cluster, &image, &["--rw=randread", "--verify=pattern", "--verify_pattern=0x33"]);
    rig.end();
}
