/** A table for people: one line a row under `heads`, columns two spaces apart and as wide as their widest cell. */
export function tableLines(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const table = [heads, ...rows];
  const widths = heads.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
