//! Files and command lines as users of these tools write them.

use super::*;
use std::path::Path;

fn options(job: &ImportedJob) -> Vec<String> {
    job.options.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn fio(text: &str) -> Result<Imported, ImportError> {
    let read = |path: &Path| match path.to_str() {
        Some("job.fio") => Ok(text.to_owned()),
        Some("common.fio") => Ok("[global]\nbs=8k\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    let variable = |name: &str| (name == "SIZE").then(|| "1m".to_owned());
    fio::import(
        Path::new("job.fio"),
        &fio::Surroundings { read: &read, variable: &variable, cpus: 3 },
    )
}

#[test]
fn job_files_have_groups_of_jobs_and_global_options() {
    let text = "; a comment\n[global]\ndirect=1\nreadwrite=randread\nblocksize=4k\nruntime=10\ntime_based\n\n\
        [one]\nfilename=/dev/nvme0n1\niodepth=32\n\n[two]\nfilename=/srv/disk\nrw=write\n# another\n\n\
        [global]\nbs=64k\n[three]\nstonewall\nname=last\n";
    let imported = fio(text).unwrap();
    assert_eq!(imported.groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let [one, two] = &imported.groups[0][..] else { panic!() };
    assert_eq!(one.target.as_deref(), Some("/dev/nvme0n1"));
    assert_eq!(
        options(one),
        [
            "direct=1",
            "rw=randread",
            "bs=4k",
            "runtime=10",
            "time_based=1",
            "iodepth=32",
            "name=one"
        ]
    );
    assert_eq!((two.get("rw"), two.get("name")), (Some("write"), Some("two")));
    let last = &imported.groups[1][0];
    assert_eq!(
        (last.get("bs"), last.get("name"), &last.target),
        (Some("64k"), Some("last"), &None)
    );
    assert_eq!(imported.without, Vec::<String>::new());
}

#[test]
fn job_files_include_others_and_name_one_file() {
    let imported =
        fio("include common.fio\n[a]\ndirectory=/srv\nioengine=psync\niodepth=4\nsize=1m\n")
            .unwrap();
    let job = &imported.groups[0][0];
    assert_eq!(
        (job.get("bs"), job.get("iodepth"), job.target.as_deref()),
        (Some("8k"), Some("1"), Some("/srv/a.0.0"))
    );
    assert!(imported.without[0].contains("psync"), "{:?}", imported.without);
    for (text, part) in [
        ("[a]\nfilename=/dev/a:/dev/b\n", "several files"),
        ("[a]\nthis is nothing\n", "job.fio:2"),
        ("[a\n", "ends with ]"),
        ("include none.fio\n", "no such file"),
        ("include job.fio\n", "include each other"),
        ("[global]\nbs=4k\n", "has no job"),
        ("[a]\nsize=${WEFT_NOT_SET}\n", "WEFT_NOT_SET"),
    ] {
        let error = fio(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
    let expanded = fio("[a]\nsize=${SIZE}\nnumjobs=$ncpus\n").unwrap();
    assert_eq!(options(&expanded.groups[0][0])[..2], ["size=1m", "numjobs=3"]);
    for url in [
        "nvme+tcp://[::1]:4420/nqn.2014-08.org.example:x",
        r"C:\disk.img",
        r"/dev/disk/by-path/pci-0000\:00",
    ] {
        assert!(fio(&format!("[a]\nfilename={url}\n")).is_ok(), "{url}");
    }
}

#[test]
fn diskspd_lines_become_jobs() {
    let line = r#"diskspd.exe -b4K -r -w30 -t10 -o4 -d60 -W15 -Sh -L -z17 "C:\my disk.dat" #1"#;
    let imported = diskspd::import(line).unwrap();
    let [file, drive] = &imported.groups[0][..] else { panic!("{imported:?}") };
    let same = [
        "rw=randrw",
        "rwmixwrite=30",
        "bs=4096",
        "numjobs=10",
        "iodepth=4",
        "runtime=60",
        "ramp_time=15",
        "time_based=1",
    ];
    assert_eq!(options(file)[..8], same);
    assert_eq!(options(file)[8..], ["direct=1", "norandommap=1", "randseed=17", "name=target-0"]);
    assert_eq!(
        (file.target.as_deref(), drive.target.as_deref()),
        (Some(r"C:\my disk.dat"), Some(r"\\.\PhysicalDrive1"))
    );
    assert_eq!(imported.without, Vec::<String>::new());
}

#[test]
fn diskspd_says_what_is_written() {
    let read = |option: &str| diskspd::import(&format!("-w100 {option} x")).unwrap();
    for (option, expected) in [("-Z", "zero_buffers"), ("-Zr", "refill_buffers")] {
        let imported = read(option);
        assert_eq!(imported.groups[0][0].get(expected), Some("1"), "{option}");
        assert!(imported.without.is_empty(), "{option}");
    }
    let source = read("-Z1M,words.txt");
    assert!(source.without[0].starts_with("-Z1M,words.txt: the payload is random data"));
}

#[test]
fn diskspd_has_its_own_defaults_and_units() {
    let job = |line: &str| diskspd::import(line).unwrap().groups[0][0].clone();
    let plain = job("-c1G /srv/x.dat");
    assert_eq!(
        options(&plain),
        [
            "rw=read",
            "bs=65536",
            "numjobs=1",
            "iodepth=2",
            "runtime=10",
            "ramp_time=5",
            "time_based=1",
            "direct=0",
            "size=1073741824",
            "name=target-0"
        ]
    );
    let limited = job("-w100 -b8K -B2b -f10b -g100i -T1M -F8 -Su x y");
    let some = [
        "rw=write",
        "rate_iops=100",
        "offset=16384",
        "size=65536",
        "offset_increment=1048576",
        "numjobs=4",
        "direct=1",
    ];
    some.iter().for_each(|option| {
        assert!(options(&limited).iter().any(|it| it == option), "{option}: {limited:?}")
    });
    assert_eq!(job("-B1M:2M -g10 x").get("size"), Some("2097152"));
    assert_eq!(job("-B1M:2M -g10 x").get("rate"), Some("10000"));
    let imported = diskspd::import("-rs50 -a0,1 -s8K -b4K x").unwrap();
    assert_eq!(imported.without.len(), 3, "{:?}", imported.without);
    for (line, part) in
        [("-b4Q x", "-b4Q"), ("-q x", "no such option"), ("-Xprofile.xml x", "profiles")]
    {
        let error = diskspd::import(line).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

const PARAMETERS: &str = "\
* storage
sd=default,openflags=o_direct,threads=16
sd=sd1,lun=/dev/sdb the first
sd=sd2,lun=/dev/sdc,size=10g
wd=wd1,sd=sd*,xfersize=4k,
   rdpct=70
wd=wd2,sd=sd1,xfersize=(4k,70,64k,30),seekpct=0,rhpct=10
rd=mixed,wd=wd1,iorate=max,elapsed=60,interval=1,warmup=5,forthreads=(1,32),forrdpct=(0,100)
rd=steady,wd=wd2,iorate=5000,elapsed=30
";

#[test]
fn parameter_files_of_vdbench_become_runs() {
    let imported = vdbench::import("parm", PARAMETERS).unwrap();
    assert_eq!(imported.groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2, 1]);
    let first = &imported.groups[0][1];
    assert_eq!(first.target.as_deref(), Some("/dev/sdc"));
    assert_eq!(
        options(first),
        [
            "name=mixed-wd1-sd2",
            "rw=randwrite",
            "norandommap=1",
            "bs=4k",
            "iodepth=1",
            "runtime=60",
            "time_based=1",
            "ramp_time=5",
            "size=10g",
            "direct=1"
        ]
    );
    assert_eq!(
        (imported.groups[1][0].get("iodepth"), imported.groups[2][0].get("rw")),
        (Some("32"), Some("randread"))
    );
    let steady = &imported.groups[4][0];
    let all = ["rw=read", "bssplit=4k/70:64k/30", "iodepth=16", "rate_iops=5000"];
    all.iter().for_each(|option| {
        assert!(options(steady).iter().any(|it| it == option), "{option}: {steady:?}")
    });
    assert_eq!(imported.without, ["wd=wd2: rhpct=10"]);
}

#[test]
fn parameter_files_of_vdbench_that_are_wrong_are_refused() {
    let with = |line: &str| format!("sd=s,lun=/x\nwd=w,sd=s\n{line}\n");
    for (text, part) in [
        (with("rd=r,wd=none"), "parm:3: there is no wd=none"),
        (with("rd=r,wd=w,forthreads=(1,2"), "ends with )"),
        (with("rd=r,wd=w,forrdpct=200"), "percentage"),
        (with("rd=r,wd=w,iorate=fast"), "operations per second"),
        (with("nothing"), "name=value"),
        (with("fsd=f,anchor=/d"), "file systems"),
        ("sd=s,size=1\nwd=w\nrd=r\n".to_owned(), "no lun"),
        ("sd=s,lun=/x\nwd=w,xfersize=(4k,64k,4k)\nrd=r\n".to_owned(), "between two"),
        (with(""), "no job"),
    ] {
        let error = vdbench::import("parm", &text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}
