/** Where the networking API listens: nobody reaches it but through the gateway, which is on the same machine. */
export const NETWORK_HOST = '127.0.0.1';
