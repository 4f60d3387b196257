/**
 * By which names and words a file is taken for a secret. The words are those of services that mark their tokens, as
 * gitleaks 8.30 knows them (config/gitleaks.toml, MIT). Forms that also public keys or other texts have are left out.
 */

/** Names of files that hold secrets, by what is in them. */
export const SECRET_NAMES: readonly RegExp[] = [
  // Variables.
  /^\.env(\..+)?$/,
  /\.env$/,
  /^\.envrc$/,
  /^secrets?\.(json|ya?ml|toml|ini|cfg|conf|properties|txt|xml)$/,
  /\.tfvars(\.json)?$/,
  // Keys and their stores.
  /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/,
  /\.(pem|key|p12|pfx|p8|ppk|jks|keystore|kdbx?|agekey)$/,
  // Logins of programs.
  /^[._](netrc|pgpass)$/,
  /^\.(pypirc|git-credentials|my\.cnf|htpasswd|s3cfg|boto|dockercfg|vault-token)$/,
  /^kubeconfig$/,
  /^(client_secret|service[-_]?account).*\.json$/i,
  // All that Terraform knows, with passwords.
  /\.tfstate(\..+)?$/,
];

/** The same by the end of their path. */
export const SECRET_PATHS: readonly RegExp[] = [
  /(^|\/)\.aws\/(credentials|config)$/,
  /(^|\/)\.ssh\/(?!config$|known_hosts|authorized_keys$|.*\.pub$)[^/]+$/,
  /(^|\/)\.kube\/config$/,
  /(^|\/)\.docker\/config\.json$/,
  /(^|\/)\.config\/gcloud\/.+$/,
];

/** Examples without values, which are deployed and committed. */
export const NO_SECRET = /[._-](example|sample|template|dist|defaults?)(\.[a-z]+)?$/i;

/** How a secret looks in a text. */
interface SecretForm {
  /** What it is, as a person is told. */
  readonly name: string;
  readonly pattern: RegExp;
  /** Only in files with such a path. */
  readonly only?: RegExp;
  /** Not in files with such a path. */
  readonly except?: RegExp;
  /** Bits a character has on average at least: less is a placeholder. 0: it is not looked at. */
  readonly entropy: number;
}

/** Where a key of the browser may stand that everybody sees. */
const OF_BROWSERS = /\.([cm]?[jt]sx?|html?|map|vue|svelte|astro)$/i;
/** What ends a token. */
const END = '(?![\\w-])';

const form = (name: string, pattern: string, entropy = 3): SecretForm => ({
  name,
  pattern: new RegExp(pattern, 'g'),
  entropy,
});

export const SECRET_FORMS: readonly SecretForm[] = [
  // With its content: programs name the first line alone.
  form(
    'private key',
    '-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----' +
      '(?:\\s+(?:Proc-Type|DEK-Info|Version|Comment)[^\\n]*)*(?:[A-Za-z0-9+/=\\s]|\\\\[nr]){64,}',
    0,
  ),
  form('private key', 'PuTTY-User-Key-File-\\d+: ', 0),
  form('age key', 'AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}'),
  // The id alone is no secret: it counts with the key.
  form('AWS key', '\\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\\b[^]{0,300}?(?<![\\w/+=])[\\w/+]{40}(?![\\w/+=])'),
  form(
    'AWS key',
    '(?:SECRET|[Ss]ecret)_?(?:ACCESS|[Aa]ccess)_?(?:KEY|[Kk]ey)["\']?\\s*[=:]\\s*["\']?[\\w/+]{40}(?![\\w/+=])',
  ),
  form('AWS key', '\\bABSK[A-Za-z0-9+/]{109,269}={0,2}'),
  form('GitHub token', `\\bgh[pousr]_[0-9a-zA-Z]{36}${END}`),
  form('GitHub token', `\\bgithub_pat_\\w{82}${END}`),
  form('GitLab token', `\\bgl(?:pat|dt|rt|ptt|soat|cbt-[0-9a-f]{1,5}_?)-[\\w-]{20}`),
  form('Slack token', '\\bxox[bpe](?:-[0-9]{10,13}){2,3}-?[a-zA-Z0-9-]*'),
  form('Slack token', '\\bxapp-\\d-[A-Z0-9]+-\\d+-[a-zA-Z0-9]+'),
  form('Slack webhook', 'hooks\\.slack\\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}'),
  // Publishable keys begin with pk_.
  form('Stripe key', `\\b(?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10,99}${END}`),
  form('npm token', `\\bnpm_[a-zA-Z0-9]{36}${END}`),
  {
    ...form(
      'npm token',
      '(?:_authToken|_auth|_password|npmAuthToken|npmAuthIdent)["\']?\\s*[=:]\\s*["\']?[^\\s"\'$#]',
      0,
    ),
    only: /(^|\/)(\.npmrc|\.yarnrc\.yml|\.yarnrc)$/,
  },
  form('PyPI token', '\\bpypi-AgEIcHlwaS5vcmc[\\w-]{50,1000}'),
  form('RubyGems token', `\\brubygems_[a-f0-9]{48}${END}`),
  { ...form('Google API key', `\\bAIza[\\w-]{35}${END}`), except: OF_BROWSERS },
  form('Google service account', '"private_key_id"\\s*:\\s*"[0-9a-f]{40}"', 0),
  form('Google OAuth secret', `\\bGOCSPX-[\\w-]{28}${END}`),
  form('Azure client secret', '(?<![\\w~.])[a-zA-Z0-9_~.]{3}\\dQ~[a-zA-Z0-9_~.-]{31,34}(?![\\w~.-])'),
  form('OpenAI key', '\\bsk-(?:(?:proj|svcacct|admin)-)?[\\w-]{20,74}T3BlbkFJ[\\w-]{20,74}'),
  form('Anthropic key', `\\bsk-ant-(?:api03|admin01)-[\\w-]{93}AA${END}`),
  form('Hugging Face token', `\\bhf_[a-zA-Z]{34}${END}`),
  form('SendGrid key', `\\bSG\\.[\\w=.-]{66}${END}`),
  form('Shopify token', `\\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}${END}`),
  form('DigitalOcean token', `\\bdo[opr]_v1_[a-f0-9]{64}${END}`),
  form('Cloudflare origin key', `\\bv1\\.0-[a-f0-9]{24}-[a-f0-9]{146}${END}`),
  form('Fly token', '\\b(?:fo1_[\\w-]{43}|fm1[ar]_[a-zA-Z0-9+/]{100,}|fm2_[a-zA-Z0-9+/]{100,})'),
  form('Heroku key', `\\bHRKU-AA[\\w-]{58}${END}`),
  form('Grafana token', `\\bglsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}${END}`),
  form('Sentry token', `\\bsntry[us]_[\\w+/=-]{64,}`),
  form('HashiCorp token', '\\b[a-zA-Z0-9]{14}\\.atlasv1\\.[\\w=-]{60,70}'),
  form('HashiCorp token', '\\bhvs\\.[\\w-]{90,120}'),
  form('Doppler token', `\\bdp\\.pt\\.[a-zA-Z0-9]{43}${END}`),
  form('PlanetScale password', '\\bpscale_(?:pw|tkn|oauth)_[\\w=.-]{32,64}'),
  form('Linear key', `\\blin_api_[a-zA-Z0-9]{40}${END}`),
  form('Notion token', `\\bntn_[0-9]{11}[A-Za-z0-9]{35}${END}`),
  form('Databricks token', `\\bdapi[a-f0-9]{32}(?:-\\d)?${END}`),
  form('1Password token', '\\bops_eyJ[a-zA-Z0-9+/]{250,}={0,3}'),
  form('Atlassian token', '\\bATATT3[\\w=-]{186}'),
  form('Telegram bot token', `\\b[0-9]{8,10}:AA[\\w-]{33}${END}`),
  form('Troupe token', '\\bsvc_ey[\\w-]+\\.ey[\\w-]+\\.[\\w-]{20,}'),
];

/** Without one of these, a text has none of the forms. */
export const SECRET_MARK = new RegExp(
  [
    ...['-----BEGIN', 'PuTTY-User', 'AGE-SECRET', 'AKIA', 'ASIA', 'ABIA', 'ACCA', 'ABSK', 'gh[pousr]_', 'github_pat_'],
    ...['gl(?:pat|dt|rt|ptt|soat|cbt)-', 'xox[bpe]-', 'xapp-', 'hooks\\.slack', '[sr]k_(?:test|live|prod)_', 'npm_'],
    ...['_auth', '_password', 'npmAuth', 'pypi-Ag', 'rubygems_', 'AIza', 'private_key_id', 'GOCSPX-', 'Q~', 'T3Blbk'],
    ...[
      'sk-ant-',
      'hf_',
      'SG\\.',
      'shp(?:at|ca|pa|ss)_',
      'do[opr]_v1_',
      'v1\\.0-',
      'fo1_',
      'fm1[ar]_',
      'fm2_',
      'HRKU-',
    ],
    ...[
      'glsa_',
      'sntry',
      'atlasv1',
      'hvs\\.',
      'dp\\.pt\\.',
      'pscale_',
      'lin_api_',
      'ntn_',
      'dapi',
      'ops_eyJ',
      'ATATT3',
    ],
    ...[':AA', 'svc_ey', '[Ss](?:ecret|ECRET)_?[Aa](?:ccess|CCESS)'],
  ].join('|'),
);

/** Values that documents use as examples. */
export const EXAMPLE = /EXAMPLE|x{6}|X{6}|0123456789abcdef|1234567890/;
