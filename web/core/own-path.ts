/** Whether a link leads to a page of the console at `page`. Links of notifications come from operators and programs. */
export function isOwnPath(link: string, page: string): boolean {
  return link.startsWith('/') && URL.canParse(link, page) && new URL(link, page).origin === new URL(page).origin;
}
