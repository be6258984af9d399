//! The `stria` program. All of it is in the library, for tests and tools.

fn main() -> std::process::ExitCode {
    stria_manage::main()
}
