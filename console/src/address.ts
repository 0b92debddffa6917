// What names a session: the query of the URL that the API handed out.

export interface Address {
  token: string;
  uuid: string;
  execId: string | null;
}

/** The session that a URL names, or only its query; null where token or uuid is missing. */
export function parseAddress(text: string): Address | null {
  const query = text.includes("?") ? text.slice(text.indexOf("?") + 1) : text;
  const values = new URLSearchParams(query.split("#")[0].trim());
  const token = values.get("token");
  const uuid = values.get("uuid");
  return token && uuid ? { token, uuid, execId: values.get("exec_id") || null } : null;
}

/** Where the session is opened: on the proxy that served the page, whatever prefix a balancer put before it. */
export function socketUrl(page: string, address: Address): string {
  const url = new URL(".", page);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("token", address.token);
  url.searchParams.set("uuid", address.uuid);
  if (address.execId) url.searchParams.set("exec_id", address.execId);
  return url.href;
}
