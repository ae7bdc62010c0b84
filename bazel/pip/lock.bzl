"""Third-party Python distributions. Written by lock.py from requirements.in: do not edit."""

PYTHON_MINORS = ["3.11", "3.12", "3.13"]

DISTRIBUTIONS = {
    "absl-py": struct(
        version = "2.5.1",
        deps = [],
        sha256 = [
            "721200f2f0e9960f2ca9dc3a2a706b201f5f75d812c158f059cbbe29eeafbdb8",
        ],
    ),
    "ast-serialize": struct(
        version = "0.13.1",
        deps = [],
        sha256 = [
            "77a6201b69ce42e919f2fd9a559138d5410b5d8afff7c3a6b1f500b0481ff7d8",
            "9f99786e0d62082a5b121b3437f3167562133711df22128de1e9886f57f0b226",
        ],
    ),
    "attrs": struct(
        version = "26.1.0",
        deps = [],
        sha256 = [
            "c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309",
        ],
    ),
    "filelock": struct(
        version = "4.3.1",
        deps = [],
        sha256 = [
            "79e43df8e9fe509cd83a3899a7c186c8077cbbe4d200a1ed3705c2f3bb6bc487",
        ],
    ),
    "fsspec": struct(
        version = "2026.9.0",
        deps = [],
        sha256 = [
            "8dd6e646e99ea382bd85f97a45e6b526a442d79423a7dc673f1e2756d05fcb5f",
        ],
    ),
    "grpcio": struct(
        version = "1.85.3",
        deps = [
            "typing-extensions",
        ],
        sha256 = [
            "258c579112434464d24dd5f8f73bf4b220a9c88219bef4d6f56410b5363a0a81",
            "399fc184b4d2dd0b014b4b880a5b1ecc99383b610dbb270acb43d1b23e1e8b9c",
            "8266434d54c3442ebdba71d97e6f688b73dd00194bda6e1e35e57272afbd2d73",
            "885f8c19eb4f472dc9b91bec03ea8b2b135027b4d94c4386501069a7b6e08efa",
            "9d20015c0dfc91de7a9a037cc84c7a174e8fe62e6427f563f1e2e35ca10f3798",
            "f2948333a1f462c0e559b5ea436655ed36822fa448f5713d6de2d483bed6e03f",
        ],
    ),
    "grpcio-tools": struct(
        version = "1.85.1",
        deps = [
            "grpcio",
            "protobuf",
            "setuptools",
        ],
        sha256 = [
            "207e2e65147a744d7cb43949b0c8b898a6f290984d10f025409311563804163f",
            "38b8307a9e7f36678dad9d2590a5e849238a7c2d1178a433fbdd46ab3f6aa452",
            "64ffd646c5baee5c33c816128924accca1099b4a07158f13ac22cafa3407a639",
            "74c5ba2513391513f002aff95131589759b33447e2b66da466d8551c3cce4d98",
            "7fdc3b869ad79254cb570eb043b5a940a775f367fd43682ce51aa518f45fec8f",
            "a6f9de0c7d3684953be29952ea6b85bb3f1cf86d5ecb0dae6ae1ccc555aa2c75",
        ],
    ),
    "hypothesis": struct(
        version = "6.170.17",
        deps = [
            "sortedcontainers",
        ],
        sha256 = [
            "475bd1ed6971a237540f68a5b2004a415b738a6c7a68bdc3efaa85f8e385d942",
            "49ff426ec74e563457a0523dbc87cbb2bcb7f76a3b9b276ddea4384f56a05b43",
            "83725fa8022f45bc972e975d07e45aca63d1d1edf415821d8c28aa6014323cfb",
            "ba5757621056597fd71d101357fed17b7f200592ca6050b59bf6733869de9fc5",
            "c9e5128120882dd8b75de43f8be753f2090d176c3f0be614c6e782fb4029fa86",
            "fd5f7feb13c275bb4672c5ef651ab6df1cb4a054c54d14aa44e578274241587a",
        ],
    ),
    "iniconfig": struct(
        version = "2.3.1",
        deps = [],
        sha256 = [
            "9121e2c1fdb355232495be3194c8dfe87ccc2d5dee45947b78e68f499790d7a7",
        ],
    ),
    "jinja2": struct(
        version = "3.1.6",
        deps = [
            "markupsafe",
        ],
        sha256 = [
            "85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67",
        ],
    ),
    "jsonschema": struct(
        version = "4.26.0",
        deps = [
            "attrs",
            "jsonschema-specifications",
            "referencing",
            "rpds-py",
        ],
        sha256 = [
            "d489f15263b8d200f8387e64b4c3a75f06629559fb73deb8fdfb525f2dab50ce",
        ],
    ),
    "jsonschema-specifications": struct(
        version = "2025.9.1",
        deps = [
            "referencing",
        ],
        sha256 = [
            "98802fee3a11ee76ecaca44429fda8a41bff98b00a0f2838151b113f210cc6fe",
        ],
    ),
    "librt": struct(
        version = "0.17.0",
        deps = [
            "mypy-extensions",
        ],
        sha256 = [
            "343d12d5afd461a134280082bec8fb11f3880c83f9caff3de5268f933b7c826f",
            "3e8ab915c48e949dfcb0a2b299af96a6707d561fa7079a21169a4bb2aafc45e0",
            "598c5455f07fc182a926b88e63776c49dc4cf47465c998cbc6ba1f010b875b51",
            "7be0c07b6185548a1087f3120dd3d7aa64c07813f8b76b8fc97e2b2a1fe36450",
            "afa8a6a1916f155e6f35c48d6cb547849af79e07060e36b6aaec1d1c63dc3c7e",
            "e3dad4792d84979f5f1aaa46d22cd062b15f4551bcadc7d2b695d42aac971bf5",
        ],
    ),
    "markdown-it-py": struct(
        version = "4.3.0",
        deps = [
            "mdurl",
        ],
        sha256 = [
            "7aa1511a46c39138de78d9eba92ce47e63124d8003fc98b3a351909e04239efa",
        ],
    ),
    "markupsafe": struct(
        version = "3.0.4",
        deps = [],
        sha256 = [
            "434139499bb20b502ed3baa1f169e618f924a97e7a777fea1a49446d80106cf6",
            "6a45c3d514f2436064db00d7fc8778d888f0236ebfed649b53d13a59e69ad51b",
            "6da83a088f8ef93b2d483a8232a4dbf4d69d3d8496b568a03c56becac43e1808",
            "7018d4af1cd272e847aa5917983ab5e83e4f6579f9dbfecd4a79c0ca80b144c2",
            "849dd2bb0e5e4ab2b71c7191726a4a8d5aa8a610daa584728cbee0b710ddc4ef",
            "8e124f974786f831d6043728e38296969d3579db8896fe004682f5758e613581",
        ],
    ),
    "mdurl": struct(
        version = "0.1.2",
        deps = [],
        sha256 = [
            "84008a41e51615a49fc9966191ff91509e3c40b939176e643fd50a5c2196b8f8",
        ],
    ),
    "mpmath": struct(
        version = "1.3.0",
        deps = [],
        sha256 = [
            "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c",
        ],
    ),
    "mypy": struct(
        version = "2.4.1",
        deps = [
            "ast-serialize",
            "librt",
            "mypy-extensions",
            "pathspec",
            "typing-extensions",
        ],
        sha256 = [
            "1fb70621535c22fd4b1a0450d37ed1d6c5eb39656a1cebfb189084c12de54ba7",
            "4e18d0da3898b3bcd16192f15a206e7b8b8dd0f4a0b3e51aa5bd5c2afe749e2c",
            "680ba5d9f0e3fe0c746b3d14df15f2a718e4bc308a1145616a1ea691ce7c354b",
            "7344869cad05f073b8cae2826774fa0161e3eb2f5c685b76813574008d77d750",
            "a20ff6cd2af7a670c64f089bfa5fbcebe8ff3bf896c5e6ac7c9862c7960e4494",
            "b69a15fc2e75858d6b15e91ed3a0dcff1a533265183b64734138791fe0f49aa5",
        ],
    ),
    "mypy-extensions": struct(
        version = "1.2.0",
        deps = [],
        sha256 = [
            "993e7a20aa5671eb41a7132cf555af30062da99729601601b9a8382b11cae768",
        ],
    ),
    "networkx": struct(
        version = "3.6.1",
        deps = [],
        sha256 = [
            "d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762",
        ],
    ),
    "numpy": struct(
        version = "2.4.6",
        deps = [],
        sha256 = [
            "0ab0a9c4ffb1a6d95ef519fe4247dba8eb6b18ad93999f76b7f657039acabd47",
            "5f9fb9157b4ce2971008323afe46053787b526ef624fea915b261468a8421a0f",
            "72fbe16c6fac95aedf5937fa873445cec2110be35d8a4e9433d7501fd98dae6b",
            "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
            "90f9849678c75fe7afa2d348ac842c168b0a4d3d61919687216dfc547976d853",
            "a7830bab239b79cda9c08c2da014761cafb48da6150e1da17ac06283f43b6089",
        ],
    ),
    "packaging": struct(
        version = "26.4",
        deps = [],
        sha256 = [
            "81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2",
        ],
    ),
    "pathspec": struct(
        version = "1.1.1",
        deps = [],
        sha256 = [
            "a00ce642f577bf7f473932318056212bc4f8bfdf53128c78bbd5af0b9b20b189",
        ],
    ),
    "pluggy": struct(
        version = "1.7.0",
        deps = [],
        sha256 = [
            "7dd7b0d8832ba3cb632c306926ded123429211b83641b35dc5c41ad2d34f9bec",
        ],
    ),
    "protobuf": struct(
        version = "7.36.2",
        deps = [],
        sha256 = [
            "89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2",
            "e11e1f0180583a2af89db6a2ecd9e8dc40aa6d2988ca175bfd0e6d12ea72d74e",
        ],
    ),
    "pygments": struct(
        version = "2.21.0",
        deps = [],
        sha256 = [
            "2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9",
        ],
    ),
    "pytest": struct(
        version = "9.2.0",
        deps = [
            "iniconfig",
            "packaging",
            "pluggy",
            "pygments",
        ],
        sha256 = [
            "07acdcf88ec174f907dc01af70bf52d49b014bbab03faeeade31c96b18c2e588",
        ],
    ),
    "pyyaml": struct(
        version = "6.0.4",
        deps = [],
        sha256 = [
            "41b4669c3a8fd5750e594dff59d3e62d40e321fec467b50449603710ed0a68f3",
            "45e37dd647db9d67b757444c74060c064ace5fdaa08f42bf4fda3812275d423e",
            "50588147ab2c6a59b5f990a4905db80899a6c2bd197e046a6201f1e67587e794",
            "622aa875fa6533f25fedcffe23079357d65a690d462200afed5d8e9d0e01ebee",
            "71bb5b87465d88d1dfc577115af6d435bff9b26f2512936f610c26aa55966028",
            "93bfb2459195406a518e2f487a9bbf01df240175f31e06f5a252ac6734c7bbf0",
        ],
    ),
    "referencing": struct(
        version = "0.37.0",
        deps = [
            "attrs",
            "rpds-py",
            "typing-extensions",
        ],
        sha256 = [
            "381329a9f99628c9069361716891d34ad94af76e461dcb0335825aecc7692231",
        ],
    ),
    "rich": struct(
        version = "15.0.0",
        deps = [
            "markdown-it-py",
            "pygments",
        ],
        sha256 = [
            "33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb",
        ],
    ),
    "rpds-py": struct(
        version = "2026.9.1",
        deps = [],
        sha256 = [
            "136a1c3fe4402b7008bc81cb62ee538481795b61a7e83df88dff3b3f02b726ff",
            "2693b2728bbcc48d09a981a356954b0c47c53ff25b545856f28a889ea619f69a",
            "457866b85daf5034296666168b84a69e0b2e89dc4f1af102b46f6448a60b9063",
            "7868b85224291c6cb6759f9b5adb9745f486d226f62b16a614dd5a2a5ab2b35b",
            "addeda51556dac7c1a2f14cda62db8b621cd12afba3091d03a96c72932387eab",
            "e01b3c878c8641913e688edd1b3f08658c6783d29cf6b826bd3c0d1ae7a1ffaa",
        ],
    ),
    "ruff": struct(
        version = "0.17.6",
        deps = [],
        sha256 = [
            "435241c61af5909a022f76219d3d1bf24730dc1bf0acabb5ddf4b569ab3cbb30",
            "aa3b08254a732acba246891089a152c47c5733dc36b8ecb76ce8602f8326e5e4",
        ],
    ),
    "setuptools": struct(
        version = "84.2.1",
        deps = [],
        sha256 = [
            "ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2",
        ],
    ),
    "sortedcontainers": struct(
        version = "2.4.0",
        deps = [],
        sha256 = [
            "a163dcaede0f1c021485e957a39245190e74249897e2ae4b2aa38595db237ee0",
        ],
    ),
    "sympy": struct(
        version = "1.14.0",
        deps = [
            "mpmath",
        ],
        sha256 = [
            "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5",
        ],
    ),
    "torch": struct(
        version = "2.13.0",
        deps = [
            "filelock",
            "fsspec",
            "jinja2",
            "networkx",
            "setuptools",
            "sympy",
            "typing-extensions",
        ],
        sha256 = [
            "092790c696a760c729fd5722835f50b9d81fd7c8f141571f3f3cf4081a8f664c",
            "1e09d6a722504957c694faceca843acde562786df1144ebcc5a74075ec7f6005",
            "572df8be8ffb4599c88cbd6a0726f1f854f4da65d2e3c09f0e2c2283333cd6d4",
            "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
            "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
            "796633c4cdf0fe2cdced72d8f88f22e73dbcfce83132763162f6d4bff13b820b",
            "a3a9a21312872af8a26950b2c15680335a386a1f56ed03e780653d78b9607e9e",
        ],
    ),
    "triton": struct(
        version = "3.9.0",
        deps = [],
        sha256 = [
            "1622118a038b0c6e16fa4a0305da62c8b3c15904ee1cc4d4e65846a25969e41e",
            "5542f4328472fd827dbb1ec43873364c2894682cc3f5d1c74a643762900e243e",
            "5e52ab4e2f1d64f0ac494c9aa723697b793f81a91c4cae4c36608ca0bc4267bf",
            "feaaec13578ca84301d561d034cb08b3ae293d7f0b7ab6b8ddbb2d6796363716",
        ],
    ),
    "typing-extensions": struct(
        version = "4.16.0",
        deps = [],
        sha256 = [
            "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8",
        ],
    ),
}

# What torch's CUDA build needs beside its own dependencies.
CUDA_DISTRIBUTIONS = {
    "cuda-bindings": struct(
        version = "13.5.0",
        deps = [],
        sha256 = [
            "08b7e8d674c3266facb00453a7e34ea7d3ea965c2f594bb728f269f45f39fbe2",
            "40eadfad6ae1554f8c1aa456620a85a49a275fc902f2c6dd93ee8c488b2c5e9f",
            "71c15ed97099a8ef416515d80ddd10770e0f6339234e16855a526d2896516631",
            "a46a8cc84112d769d0f57bf3ae3fedc115cf09348f14da85a1a8200968b6f262",
            "cf525b2c2113fdfd2b10899a3e5d280520e970aa13c6ca021e83d9d02f895ed1",
            "d47b6f6d0398f97c82e2525eefb02e7252848e48c902824f6a6b6467a5902894",
        ],
    ),
    "cuda-pathfinder": struct(
        version = "1.9.1",
        deps = [],
        sha256 = [
            "b743c132f90ad2d1e71d43fd28f31ebcde518f943e50fd44aca62b2a80d5230d",
        ],
    ),
    "cuda-toolkit": struct(
        version = "13.0.3.0",
        deps = [],
        sha256 = [
            "d693caaa261214ddd7dbb60d68e71cbed884e68c2be7509778f3051da0b91c3f",
        ],
    ),
    "nvidia-cublas": struct(
        version = "13.1.1.3",
        deps = [],
        sha256 = [
            "37936a16db8fe4ac1f065c2139360608a543a09275cb1a1af612e08cfa065436",
            "b7a210458267ac818974c53038fbec2e969d5c99f305ab15c72522fa9f001dd5",
        ],
    ),
    "nvidia-cuda-cupti": struct(
        version = "13.0.85",
        deps = [],
        sha256 = [
            "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151",
        ],
    ),
    "nvidia-cuda-nvrtc": struct(
        version = "13.0.88",
        deps = [],
        sha256 = [
            "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
            "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
        ],
    ),
    "nvidia-cuda-runtime": struct(
        version = "13.0.96",
        deps = [],
        sha256 = [
            "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
        ],
    ),
    "nvidia-cudnn-cu13": struct(
        version = "9.20.0.48",
        deps = [],
        sha256 = [
            "0c45dd8eeb50b603f07995b1b300c62ffe6a1980482b82b3bcf94a4ca9d49304",
            "e31454ae00094b0c55319d9d15b6fa2fc50a9e1c0f5c8c80fb75258234e731e1",
        ],
    ),
    "nvidia-cufft": struct(
        version = "12.0.0.61",
        deps = [],
        sha256 = [
            "2708c852ef8cd89d1d2068bdbece0aa188813a0c934db3779b9b1faa8442e5f5",
            "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3",
        ],
    ),
    "nvidia-cufile": struct(
        version = "1.15.1.6",
        deps = [],
        sha256 = [
            "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44",
            "bdc0deedc61f548bddf7733bdc216456c2fdb101d020e1ab4b88d232d5e2f6d1",
        ],
    ),
    "nvidia-curand": struct(
        version = "10.4.0.35",
        deps = [],
        sha256 = [
            "133df5a7509c3e292aaa2b477afd0194f06ce4ea24d714d616ff36439cee349a",
            "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc",
        ],
    ),
    "nvidia-cusolver": struct(
        version = "12.0.4.66",
        deps = [],
        sha256 = [
            "02c2457eaa9e39de20f880f4bd8820e6a1cfb9f9a34f820eb12a155aa5bc92d2",
            "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112",
        ],
    ),
    "nvidia-cusparse": struct(
        version = "12.6.3.3",
        deps = [],
        sha256 = [
            "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b",
            "80bcc4662f23f1054ee334a15c72b8940402975e0eab63178fc7e670aa59472c",
        ],
    ),
    "nvidia-cusparselt-cu13": struct(
        version = "0.8.1",
        deps = [],
        sha256 = [
            "4dca476c50bf4780d46cd0bfbd82e2bc10a08e4fef7950917ce8d7578d22a23f",
            "786ce87568c303fadb5afcc7102d454cd3040d75f6f8626f5db460d1871f4dd0",
        ],
    ),
    "nvidia-nccl-cu13": struct(
        version = "2.29.7",
        deps = [],
        sha256 = [
            "674a12383e3c38a1bcccae7d4f3633b37852230b6047883cb2f4c2d1b36d9bf5",
            "edd81538446786ec3b73972543e53bb43bcaf0bfc8ef76cb679fcc390ffe136d",
        ],
    ),
    "nvidia-nvjitlink": struct(
        version = "13.5.37",
        deps = [],
        sha256 = [
            "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb",
            "893f6f9a55b2720ed94913b5ba3332e972da8c78dfa2863d0244403dbd528ffc",
        ],
    ),
    "nvidia-nvshmem-cu13": struct(
        version = "3.4.5",
        deps = [],
        sha256 = [
            "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80",
            "6dc2a197f38e5d0376ad52cd1a2a3617d3cdc150fd5966f4aee9bcebb1d68fe9",
        ],
    ),
    "nvidia-nvtx": struct(
        version = "13.0.85",
        deps = [],
        sha256 = [
            "4936d1d6780fbe68db454f5e72a42ff64d1fd6397df9f363ae786930fd5c1cd4",
            "cb7780edb6b14107373c835bf8b72e7a178bac7367e23da7acb108f973f157a6",
        ],
    ),
    "triton": struct(
        version = "3.7.1",
        deps = [],
        sha256 = [
            "58c0e131da05134a2a4788ccbcc0c1105cf0f54c8e98f19e34cd465396dc15eb",
            "6744957e9fd610a29680ec2346057d0c86948ed3812468670719f391e94b44a5",
            "7e40869937a68206ec70d7f25bb7ec6433cb083f9135e1f36dbd318dc449a728",
            "9497f2e696ee368862a181a90b2dcc03ca978cc4f602abd67c7d81022a6988e1",
            "cdbfc09d9ec58bc5e68321525653220de7515c199e7a8097a97c85e62b52cd0a",
            "d4a0e1cd4c4a76370ed74a8432a53cea28716827d19e40ffc732233e35ceb3f6",
        ],
    ),
}
