//! The kernel is chosen once, by the processor or by `STRIA_PARITY_KERNEL`: each case in a process of its own.

use std::process::Command;

/// The output of a child of this test; the children run `child` alone.
fn kernel_of(choice: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--ignored"]).env_remove("STRIA_PARITY_KERNEL");
    if let Some(name) = choice {
        command.env("STRIA_PARITY_KERNEL", name);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(text);
    }
    let name = text.lines().find_map(|line| line.strip_prefix("kernel: ")).expect("the child names its kernel");
    Ok(name.into())
}

#[test]
#[ignore = "run by the other tests, as a process of its own"]
fn child() {
    println!("\nkernel: {}", stria_parity::kernel_name());
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn the_variable_overrides_the_processor() {
    assert_eq!(kernel_of(Some("portable")).unwrap(), "portable");
    let best = kernel_of(None).unwrap();
    assert_eq!(kernel_of(Some(&best)).unwrap(), best);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    assert_ne!(best, "portable", "every x86-64 processor of these years has SSSE3, every AArch64 one NEON");
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn an_unknown_name_is_refused_with_those_there_are() {
    let refusal = kernel_of(Some("avx1024")).unwrap_err();
    assert!(refusal.contains("STRIA_PARITY_KERNEL=avx1024") && refusal.contains("portable"), "{refusal}");
}
